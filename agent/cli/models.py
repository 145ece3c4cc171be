"""`anchormoe-agent models …`: which bundles there are, which speaks in which group, and how to change that."""

import asyncio
import getpass
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.cli.errors import WRONG_USAGE, fail

if TYPE_CHECKING:
    from agent.models.activations import Activation
    from agent.models.overview import ModelOverview
    from agent.settings import LoadedPlant

CONFIG = typer.Option(Path("plant.yaml"), "--config", "-c", help="The plant whose models are meant.")
AS_JSON = typer.Option(False, "--json", help="JSON instead of text.")
GROUP = typer.Argument(help="Asset group, as in the configuration.")
BY = typer.Option(None, "--by", help="Who does it; else the user of this session.")
REASON = typer.Option("", "--reason", help="Why, for those who look later.")
_DEFAULT_AHEAD = "2m"

commands = typer.Typer(no_args_is_help=True, help="Bundles: which there are, which speak; activate one, roll back.")


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="models")


@commands.command(name="list", epilog="Example: `anchormoe-agent models list --config plant.yaml --json`")
def list_models(config: Path = CONFIG, as_json: bool = AS_JSON) -> None:
    """Every bundle with its digest, accuracy and age, and where it speaks: since when, until when, or from when on."""
    lineup = asyncio.run(_lineup(_plant(config)))
    if as_json:
        typer.echo(json.dumps(lineup.as_json(time.time_ns()), indent=2, ensure_ascii=False))
    else:
        _print(lineup)


@commands.command(epilog="Example: `anchormoe-agent models activate pumps pump-2 --in 5m --reason 'new bearings'`")
def activate(
    group: str = GROUP,
    bundle: str = typer.Argument(help="Its sub-directory, or the beginning of its digest."),
    config: Path = CONFIG,
    at: str | None = typer.Option(None, "--at", metavar="TIME", help="End of the first window it judges, ISO time."),
    ahead: str | None = typer.Option(None, "--in", metavar="TIME", help=f"From now on, like {_DEFAULT_AHEAD}."),
    reason: str = REASON,
    by: str | None = BY,
) -> None:
    """Let a bundle speak in a group, from a window's end on, at least a minute ahead.

    The bundle is loaded and checked here first. The agents load it beside the old one; windows that end before are
    judged by the old one, also in a replay.
    """
    if at is not None and ahead is not None:
        fail("--at, --in: give one of the two", code=WRONG_USAGE)
    wanted = None if at is None else _time_ns(at)
    wait_ns = _duration_ns(ahead or _DEFAULT_AHEAD)
    plant = _plant(config)
    lineup = asyncio.run(_lineup(plant))
    _require_group(lineup, group)
    chosen = lineup.proposal(group, bundle)
    _verify(plant, chosen)
    effective_ns = time.time_ns() + wait_ns if wanted is None else wanted
    _write(plant, lineup, chosen, effective_ns, by=by, reason=reason)


@commands.command(epilog="Example: `anchormoe-agent models rollback pumps --reason 'false alarms'`")
def rollback(group: str = GROUP, config: Path = CONFIG, reason: str = REASON, by: str | None = BY) -> None:
    """Let the model before the last one speak again, a minute from now. One that is still to come never speaks."""
    from agent.models.activations import AHEAD_NS, rollback_end

    plant = _plant(config)
    lineup = asyncio.run(_lineup(plant))
    _require_group(lineup, group)
    chosen = lineup.predecessor(group)
    if chosen is None:
        fail(f"{group}: no other model has spoken; there is nothing to go back to")
    _verify(plant, chosen)
    # A second more: the clock goes on between this line and the check.
    effective_ns = rollback_end(lineup.lines[group], time.time_ns() + AHEAD_NS // 60)
    _write(plant, lineup, chosen, effective_ns, by=by, reason=reason or "rollback")


def _plant(config: Path) -> "LoadedPlant":
    from agent.settings import load_plant

    plant = load_plant(config, os.environ)
    if plant.settings.models is None:
        fail(f"{config}: models: missing; name the directory of the bundles that may take over", code=WRONG_USAGE)
    return plant


async def _lineup(plant: "LoadedPlant") -> "ModelOverview":
    from agent.app import journal_of
    from agent.models.bundle_directory import describe_bundle, list_bundles
    from agent.models.overview import ModelOverview

    models = plant.settings.models
    assert models is not None  # `_plant` has looked
    bundles = list_bundles(models.directory)
    configured = {group.name: describe_bundle(group.bundle, None) for group in plant.groups}
    journal = journal_of(plant.settings)
    try:
        await journal.start()
        return ModelOverview.of([entry.value for entry in await journal.read()], bundles, configured)
    finally:
        await journal.close()


def _require_group(lineup: "ModelOverview", group: str) -> None:
    if group not in lineup.lines:
        fail(f"there is no group {group}; there are {', '.join(lineup.lines)}", code=WRONG_USAGE)


def _verify(plant: "LoadedPlant", chosen: "Activation") -> None:
    """As an agent will: hashes, shapes, golden windows, and whether it fits the group. Raises ModelError."""
    from agent.app import candidates_of

    candidates_of(plant)[chosen.group].speaker(chosen)


def _write(
    plant: "LoadedPlant", lineup: "ModelOverview", chosen: "Activation", wanted_ns: int, *, by: str | None, reason: str
) -> None:
    from agent.models.activations import activation_problems

    group = next(each for each in plant.groups if each.name == chosen.group)
    activation = lineup.complete(
        chosen, group.first_end_ns(wanted_ns), by=by or getpass.getuser(), now_ns=time.time_ns(), reason=reason
    )
    wrong = activation_problems(activation, now_ns=time.time_ns(), groups=lineup.lines, digests=lineup.digests)
    if wrong:
        fail("\n".join(wrong), code=WRONG_USAGE)
    asyncio.run(_append(plant, activation))
    typer.echo(lineup.told(activation))


async def _append(plant: "LoadedPlant", activation: "Activation") -> None:
    from agent.app import journal_of
    from agent.models.activations import encode_activation

    journal = journal_of(plant.settings)
    try:
        await journal.start()
        await journal.append(activation.key, encode_activation(activation))
    finally:
        await journal.close()


def _print(lineup: "ModelOverview") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("bundle", "name", "version", "digest", box=None, header_style="bold")
    table.add_column("accuracy", justify="right")
    for title in ("created", "speaks"):
        table.add_column(title)
    for row in lineup.rows(time.time_ns()):
        table.add_row(*row)
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=180)).print(table)


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
