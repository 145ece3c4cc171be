"""`anchormoe-agent alarm …`: look at alarms, acknowledge, shelve, report."""

import asyncio
import getpass
import json
import os
import time
from collections.abc import AsyncIterator, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agent.cli.errors import FAILED, WRONG_USAGE, fail

if TYPE_CHECKING:
    from agent.alarms.commands import CommandRequest
    from agent.alarms.core.transitions import Transition
    from agent.settings import Plant

commands = typer.Typer(no_args_is_help=True, help="Look at alarms, acknowledge and shelve them, report on them.")

CONFIG = typer.Option(Path("plant.yaml"), "--config", "-c", help="The plant, with a section `alarms`.")
ALARM = typer.Argument(..., metavar="ALARM", help="Id, like bearing-wear:pump-1; `alarm list` shows them.")
BY = typer.Option(None, "--by", help="Who; else the user of this terminal.")
WHY = typer.Option("", "--why", help="Why; goes into the audit.")
REASON = typer.Option(..., "--why", help="Why; goes into the audit.")
WAIT = typer.Option(20.0, "--wait", min=1, help="Seconds to wait for a worker's answer.")


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="alarm")


@commands.command("list", epilog="Example: `anchormoe-agent alarm list --config plant.yaml`")
def list_alarms(
    config: Path = CONFIG,
    every: bool = typer.Option(False, "--all", help="Normal ones, too."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object per line."),
) -> None:
    """Show the alarms that stand now, the most urgent first."""
    from agent.alarms.views import line, urgency

    found = [one for one in _present(config).values() if every or one["state"] != "normal"]
    for one in sorted(found, key=urgency):
        typer.echo(json.dumps(one, ensure_ascii=False) if as_json else line(one))
    if not found:
        typer.echo("no alarms", err=True)


@commands.command(epilog="Example: `anchormoe-agent alarm show bearing-wear:pump-1`")
def show(
    alarm: str = ALARM,
    config: Path = CONFIG,
    as_json: bool = typer.Option(False, "--json", help="Everything as one JSON object."),
) -> None:
    """Show one alarm with its reasons: what raised it, the strongest evidence since, what to do."""
    from agent.alarms.views import story

    found = _present(config).get(alarm)
    if found is None:
        fail(f"there is no alarm {alarm}; `alarm list --all` shows what there is")
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False) if as_json else "\n".join(story(found)))


@commands.command(epilog="Example: `anchormoe-agent alarm ack bearing-wear:pump-1 --why 'on my way'`")
def ack(alarm: str = ALARM, config: Path = CONFIG, by: str | None = BY, why: str = WHY, wait: float = WAIT) -> None:
    """Acknowledge: somebody has seen it and acts."""
    _carry_out(config, wait, verb="ack", alarm=alarm, by=by, why=why)


@commands.command(epilog="Example: `anchormoe-agent alarm shelve lost-channel:pump-1 --for 2h --why 'sensor ordered'`")
def shelve(
    alarm: str = ALARM,
    duration: str = typer.Option(..., "--for", metavar="TIME", help="How long, like 30m or 2h."),
    why: str = REASON,
    config: Path = CONFIG,
    by: str | None = BY,
    wait: float = WAIT,
) -> None:
    """Hide an alarm for a while. Needs a reason and an end; both are in the audit."""
    until = time.time_ns() + _duration_ns(duration)
    _carry_out(config, wait, verb="shelve", alarm=alarm, by=by, why=why, until_ns=until)


@commands.command()
def unshelve(
    alarm: str = ALARM, config: Path = CONFIG, by: str | None = BY, why: str = WHY, wait: float = WAIT
) -> None:
    """End a shelving before its time."""
    _carry_out(config, wait, verb="unshelve", alarm=alarm, by=by, why=why)


@commands.command("out-of-service")
def out_of_service(
    alarm: str = ALARM, why: str = REASON, config: Path = CONFIG, by: str | None = BY, wait: float = WAIT
) -> None:
    """Take an alarm out of service until somebody puts it back."""
    _carry_out(config, wait, verb="out-of-service", alarm=alarm, by=by, why=why)


@commands.command("in-service")
def in_service(
    alarm: str = ALARM, config: Path = CONFIG, by: str | None = BY, why: str = WHY, wait: float = WAIT
) -> None:
    """Put an alarm back into service."""
    _carry_out(config, wait, verb="in-service", alarm=alarm, by=by, why=why)


@commands.command()
def reset(alarm: str = ALARM, config: Path = CONFIG, by: str | None = BY, why: str = WHY, wait: float = WAIT) -> None:
    """Reset a latched alarm after its return."""
    _carry_out(config, wait, verb="reset", alarm=alarm, by=by, why=why)


@commands.command()
def comment(
    alarm: str = ALARM, why: str = REASON, config: Path = CONFIG, by: str | None = BY, wait: float = WAIT
) -> None:
    """Add a remark to the audit."""
    _carry_out(config, wait, verb="comment", alarm=alarm, by=by, why=why)


@commands.command(epilog="Example: `anchormoe-agent alarm report --from 2024-05-01 --to 2024-06-01 --html report.html`")
def report(
    begin: datetime = typer.Option(..., "--from", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="Begin, UTC."),
    end: datetime = typer.Option(..., "--to", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="End, UTC."),
    config: Path = CONFIG,
    html: Path | None = typer.Option(None, "--html", help="Write a page with plots here, too."),
) -> None:
    """Report the figures of ISA-18.2 from the transitions, with the standard's targets beside them."""
    from agent.alarms.kpis import Period, figures
    from agent.alarms.report import page, table

    period = Period(_ns(begin), _ns(end))
    if period.end_ns <= period.begin_ns:
        fail("--to must be later than --from", code=WRONG_USAGE)
    found = asyncio.run(_transitions(_plant(config)))
    typer.echo("\n".join(table(figures(found, period))))
    if html is not None:
        html.write_text(page(found, period), encoding="utf-8")
        typer.echo(f"{html}: written", err=True)


def _carry_out(config: Path, wait: float, *, by: str | None, **facts: Any) -> None:
    from agent.alarms.commands import CommandRequest

    answer = asyncio.run(_sent(_plant(config), CommandRequest(by=by or getpass.getuser(), **facts), wait))
    if answer["outcome"] != "done":
        fail(f"{answer['alarm']}: refused: {answer['reason']}", code=FAILED)
    typer.echo(f"{answer['alarm']}: {answer['act']} done by {answer['by']}")


def _sent(plant: "Plant", order: "CommandRequest", wait_s: float) -> Coroutine[Any, Any, dict[str, Any]]:
    from agent.alarms.commands import console_of, send
    from agent.alarms.from_settings import catalogue_from_settings
    from agent.alarms.wiring import alarms_in, cluster_in, streams

    alarms = alarms_in(plant)
    console = console_of(order.alarm, catalogue_from_settings(plant, alarms))
    if console is None:
        fail(f"{order.alarm}: no console shows it; ids look like rule:asset", code=WRONG_USAGE)
    command = order.command(time.time_ns())
    return send(cluster_in(plant), streams(alarms), command, console, timeout_s=wait_s)


def _plant(config: Path) -> "Plant":
    from agent.settings import load_settings

    return load_settings(config, os.environ)


def _present(config: Path) -> dict[str, dict[str, Any]]:
    plant = _plant(config)

    async def read() -> dict[str, dict[str, Any]]:
        from agent.alarms.messages import ALARMS

        return {one["alarm"]: one async for one in _documents(plant, ALARMS)}

    return asyncio.run(read())


async def _transitions(plant: "Plant") -> "list[Transition]":
    from agent.alarms.core.transitions import transition_from
    from agent.alarms.messages import TRANSITIONS

    found = {one["id"]: transition_from(one) async for one in _documents(plant, TRANSITIONS)}
    return sorted(found.values(), key=lambda one: one.at_ns)


async def _documents(plant: "Plant", stream: str) -> AsyncIterator[dict[str, Any]]:
    from agent.alarms.wiring import alarms_in, cluster_in, streams
    from connectors.kafka.bounded import read_records

    async for record in read_records(cluster_in(plant), streams(alarms_in(plant))[stream]):
        yield json.loads(record.value or b"{}")


def _duration_ns(text: str) -> int:
    from agent.settings import Duration

    try:
        return int(Duration.parse(text))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from error


def _ns(moment: datetime) -> int:
    return int(moment.replace(tzinfo=UTC).timestamp()) * 1_000_000_000
