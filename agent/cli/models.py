"""`anchormoe-agent models`: which bundles exist, which is active in which group, and how to change that."""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.cli.errors import WRONG_USAGE, fail
from agent.cli.inputs import user_name
from agent.cli.options import ALLOW_USELESS, refuse_useless

if TYPE_CHECKING:
    from agent.models.activations import Activation
    from agent.models.overview import ModelOverview
    from agent.settings import LoadedPlant

CONFIG = typer.Option(Path("plant.yaml"), "--config", "-c", help="Configuration of the plant.")
AS_JSON = typer.Option(False, "--json", help="JSON instead of text.")
GROUP = typer.Argument(help="Asset group, as in the configuration.")
BY = typer.Option(None, "--by", help="Who does it; by default the current user.")
REASON = typer.Option("", "--reason", help="Why; it is stored with the activation.")
_DEFAULT_AHEAD = "2m"

commands = typer.Typer(no_args_is_help=True, help="Bundles: list them, activate one for a group, roll back.")


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="models")


@commands.command(name="list", epilog="Example: `anchormoe-agent models list --config plant.yaml --json`")
def list_models(config: Path = CONFIG, as_json: bool = AS_JSON) -> None:
    """Every bundle with its digest, accuracy and age, and the groups in which it is active or will be."""
    overview = asyncio.run(_load_overview(_plant(config)))
    if as_json:
        typer.echo(json.dumps(overview.as_json(time.time_ns()), indent=2, ensure_ascii=False))
    else:
        _print(overview)


@commands.command(epilog="Example: `anchormoe-agent models activate pumps pump-2 --in 5m --reason 'new bearings'`")
def activate(
    group: str = GROUP,
    bundle: str = typer.Argument(help="Name of its directory, or the beginning of its digest."),
    config: Path = CONFIG,
    at: str | None = typer.Option(
        None, "--at", metavar="TIME", help="End of the first window it classifies, ISO time."
    ),
    ahead: str | None = typer.Option(
        None, "--in", metavar="TIME", help=f"Instead of --at: time from now, by default {_DEFAULT_AHEAD}."
    ),
    reason: str = REASON,
    by: str | None = BY,
    allow_useless: bool = ALLOW_USELESS,
) -> None:
    """Activate a bundle for a group, effective from a given window end, at least a minute ahead.

    The bundle is loaded and checked here first. Agents load it beside the active one; windows that end earlier are
    still classified by that one, in a replay too.
    """
    if at is not None and ahead is not None:
        fail("--at, --in: give only one of the two", code=WRONG_USAGE)
    wanted = None if at is None else _time_ns(at)
    wait_ns = _duration_ns(ahead or _DEFAULT_AHEAD)
    plant = _plant(config)
    overview = asyncio.run(_load_overview(plant))
    _require_group(overview, group)
    chosen = overview.propose(group, bundle)
    _verify(plant, chosen)
    _refuse_useless(plant, chosen, allowed=allow_useless)
    effective_ns = time.time_ns() + wait_ns if wanted is None else wanted
    _write(plant, overview, chosen, effective_ns, by=by, reason=reason)


@commands.command(epilog="Example: `anchormoe-agent models rollback pumps --reason 'false alarms'`")
def rollback(group: str = GROUP, config: Path = CONFIG, reason: str = REASON, by: str | None = BY) -> None:
    """Reactivate the previous bundle, effective in one minute. A pending activation is cancelled."""
    from agent.models.activations import AHEAD_NS, rollback_end

    plant = _plant(config)
    overview = asyncio.run(_load_overview(plant))
    _require_group(overview, group)
    chosen = overview.predecessor(group)
    if chosen is None:
        fail(f"{group}: no other bundle was ever active; there is nothing to roll back to")
    _verify(plant, chosen)
    # A second more: the clock goes on between this line and the check.
    effective_ns = rollback_end(overview.timelines[group], time.time_ns() + AHEAD_NS // 60)
    _write(plant, overview, chosen, effective_ns, by=by, reason=reason or "rollback")


def _plant(config: Path) -> "LoadedPlant":
    from agent.settings import load_plant

    plant = load_plant(config, os.environ)
    if plant.settings.models is None:
        fail(
            f"{config}: models: missing; set `directory` to the directory of the bundles that may be activated",
            code=WRONG_USAGE,
        )
    return plant


async def _load_overview(plant: "LoadedPlant") -> "ModelOverview":
    from agent.endpoints import activation_log
    from agent.models.bundle_directory import describe_bundle, list_bundles
    from agent.models.overview import ModelOverview

    models = plant.settings.models
    assert models is not None  # checked by `_plant`
    bundles = list_bundles(models.directory)
    configured = {group.name: describe_bundle(group.bundle, None) for group in plant.groups}
    activations = activation_log(plant.settings)
    try:
        await activations.start()
        return ModelOverview.of([entry.value for entry in await activations.read()], bundles, configured)
    finally:
        await activations.close()


def _require_group(overview: "ModelOverview", group: str) -> None:
    if group not in overview.timelines:
        fail(f"unknown group {group}; the groups are {', '.join(overview.timelines)}", code=WRONG_USAGE)


def _verify(plant: "LoadedPlant", chosen: "Activation") -> None:
    """As an agent will: hashes, shapes, golden windows, and whether it fits the group. Raises ModelError."""
    from agent.app import compatible_bundles

    compatible_bundles(plant)[chosen.group].load_activated(chosen)


def _refuse_useless(plant: "LoadedPlant", chosen: "Activation", *, allowed: bool) -> None:
    from agent.models.bundle_directory import bundle_path

    if plant.settings.models is not None and chosen.bundle is not None:
        refuse_useless(bundle_path(plant.settings.models.directory, chosen.bundle), allowed=allowed)


def _write(
    plant: "LoadedPlant",
    overview: "ModelOverview",
    chosen: "Activation",
    wanted_ns: int,
    *,
    by: str | None,
    reason: str,
) -> None:
    from agent.models.activations import activation_problems

    group = next(each for each in plant.groups if each.name == chosen.group)
    activation = overview.complete(
        chosen, group.first_end_ns(wanted_ns), by=by or user_name(), now_ns=time.time_ns(), reason=reason
    )
    wrong = activation_problems(activation, now_ns=time.time_ns(), groups=overview.timelines, digests=overview.digests)
    if wrong:
        fail("\n".join(wrong), code=WRONG_USAGE)
    asyncio.run(_append(plant, activation))
    typer.echo(overview.describe(activation))


async def _append(plant: "LoadedPlant", activation: "Activation") -> None:
    from agent.endpoints import activation_log
    from agent.models.activations import encode_activation

    activations = activation_log(plant.settings)
    try:
        await activations.start()
        await activations.append(activation.key, encode_activation(activation))
    finally:
        await activations.close()


def _print(overview: "ModelOverview") -> None:
    from rich.table import Table

    from agent.cli.console import text_console

    table = Table("bundle", "name", "version", "digest", box=None, header_style="bold")
    table.add_column("accuracy", justify="right")
    for title in ("created", "active"):
        table.add_column(title)
    for row in overview.rows(time.time_ns()):
        table.add_row(*row)
    text_console(pipe_width=180).print(table)


def _time_ns(text: str) -> int:
    """An ISO time; without a zone it is UTC, as all our times are."""
    from connectors.timestamps import parse_iso

    try:
        return parse_iso(text)
    except ValueError as error:
        fail(f"--at: {error}", code=WRONG_USAGE)


def _duration_ns(text: str) -> int:
    from pydantic_core import PydanticCustomError

    from agent.settings import Duration

    try:
        return int(Duration.parse(text))
    except PydanticCustomError as error:
        fail(f"--in: {error}", code=WRONG_USAGE)
