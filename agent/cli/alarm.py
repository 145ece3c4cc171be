"""`anchormoe-agent alarm …`: show alarms, acknowledge and shelve them, report on them."""

import asyncio
import getpass
import json
import os
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agent.cli.errors import FAILED, WRONG_USAGE, fail

if TYPE_CHECKING:
    from agent.alarms.core.transitions import Transition
    from agent.settings import Plant

commands = typer.Typer(no_args_is_help=True, help="Show alarms, acknowledge and shelve them, report on them.")

CONFIG = typer.Option(Path("plant.yaml"), "--config", "-c", help="The configuration, with a section `alarms`.")
ALARM = typer.Argument(..., metavar="ALARM", help="Id, like bearing-wear:pump-1; see `alarm list`.")
BY = typer.Option(None, "--by", help="Your name for the audit. [default: the user of this terminal]")
WHY = typer.Option("", "--why", help="Reason, for the audit.")
REASON = typer.Option(..., "--why", help="Reason, for the audit.")
WAIT = typer.Option(20.0, "--wait", min=1, help="Seconds to wait for an alarm worker to answer.")
_TIME_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="alarm")


@commands.command("list", epilog="Example: `anchormoe-agent alarm list --config plant.yaml`")
def list_alarms(
    config: Path = CONFIG,
    every: bool = typer.Option(False, "--all", help="Include alarms in state normal."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object per line."),
) -> None:
    """List the present alarms, most urgent first."""
    from agent.alarms.views import alarm_line, urgency

    found = [one for one in _present(config).values() if every or one["state"] != "normal"]
    for one in sorted(found, key=urgency):
        typer.echo(json.dumps(one, ensure_ascii=False) if as_json else alarm_line(one))
    if not found:
        typer.echo("no alarms", err=True)


@commands.command(epilog="Example: `anchormoe-agent alarm show bearing-wear:pump-1`")
def show(
    alarm: str = ALARM,
    config: Path = CONFIG,
    as_json: bool = typer.Option(False, "--json", help="As a JSON object."),
) -> None:
    """Show one alarm: cause, consequence, what to do, the event that raised it and the strongest evidence since."""
    from agent.alarms.views import alarm_details

    found = _present(config).get(alarm)
    if found is None:
        fail(f"there is no alarm {alarm}; `alarm list --all` lists all alarms")
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False) if as_json else "\n".join(alarm_details(found)))


@commands.command(epilog="Example: `anchormoe-agent alarm ack bearing-wear:pump-1 --why 'on my way'`")
def ack(alarm: str = ALARM, config: Path = CONFIG, by: str | None = BY, why: str = WHY, wait: float = WAIT) -> None:
    """Acknowledge an alarm: you have seen it and respond to it."""
    _command(config, wait, verb="ack", alarm=alarm, by=by, why=why)


@commands.command(
    epilog="Example: `anchormoe-agent alarm shelve lost-channel:pump-1#flow --for 2h --why 'sensor ordered'`"
)
def shelve(
    alarm: str = ALARM,
    duration: str = typer.Option(..., "--for", metavar="TIME", help="How long, like 30m or 2h."),
    why: str = REASON,
    config: Path = CONFIG,
    by: str | None = BY,
    wait: float = WAIT,
) -> None:
    """Shelve an alarm: hide it for a limited time, with a reason."""
    until = time.time_ns() + _duration_ns(duration)
    _command(config, wait, verb="shelve", alarm=alarm, by=by, why=why, until_ns=until)


@commands.command()
def unshelve(
    alarm: str = ALARM, config: Path = CONFIG, by: str | None = BY, why: str = WHY, wait: float = WAIT
) -> None:
    """End a shelving early."""
    _command(config, wait, verb="unshelve", alarm=alarm, by=by, why=why)


@commands.command("out-of-service")
def out_of_service(
    alarm: str = ALARM, why: str = REASON, config: Path = CONFIG, by: str | None = BY, wait: float = WAIT
) -> None:
    """Take an alarm out of service until `in-service` puts it back."""
    _command(config, wait, verb="out-of-service", alarm=alarm, by=by, why=why)


@commands.command("in-service")
def in_service(
    alarm: str = ALARM, config: Path = CONFIG, by: str | None = BY, why: str = WHY, wait: float = WAIT
) -> None:
    """Put an alarm back into service."""
    _command(config, wait, verb="in-service", alarm=alarm, by=by, why=why)


@commands.command()
def reset(alarm: str = ALARM, config: Path = CONFIG, by: str | None = BY, why: str = WHY, wait: float = WAIT) -> None:
    """Reset a latched alarm after it has returned and was acknowledged."""
    _command(config, wait, verb="reset", alarm=alarm, by=by, why=why)


@commands.command()
def comment(
    alarm: str = ALARM, why: str = REASON, config: Path = CONFIG, by: str | None = BY, wait: float = WAIT
) -> None:
    """Add a comment to the audit."""
    _command(config, wait, verb="comment", alarm=alarm, by=by, why=why)


@commands.command(epilog="Example: `anchormoe-agent alarm report --from 2026-05-01 --to 2026-06-01 --html report.html`")
def report(
    begin: datetime = typer.Option(
        ...,
        "--from",
        metavar="TIME",
        formats=_TIME_FORMATS,
        help="Begin in UTC, like 2026-05-01 or 2026-05-01T08:00:00.",
    ),
    end: datetime = typer.Option(
        ...,
        "--to",
        metavar="TIME",
        formats=_TIME_FORMATS,
        help="End in UTC. If it is in the future, the report ends now.",
    ),
    config: Path = CONFIG,
    html: Path | None = typer.Option(None, "--html", help="Also write an HTML page with plots to this file."),
) -> None:
    """Report the key figures of ISA-18.2 for a period, next to the targets of the standard."""
    from agent.alarms.kpis import Period, figures
    from agent.alarms.report import report_html, report_text

    if end <= begin:
        fail("--to must be later than --from", code=WRONG_USAGE)
    period = Period(_utc_ns(begin), _utc_ns(end)).until(time.time_ns())
    if period.end_ns <= period.begin_ns:
        fail("--from is in the future", code=WRONG_USAGE)
    found = asyncio.run(_transitions(_plant(config)))
    typer.echo("\n".join(report_text(figures(found, period))))
    if html is not None:
        html.write_text(report_html(found, period), encoding="utf-8")
        typer.echo(f"{html}: written", err=True)


def _command(config: Path, wait_s: float, *, by: str | None, **facts: Any) -> None:
    """Sends the command and prints its outcome; exits with 1 if it was refused."""
    from agent.alarms.commands import CommandRequest, console_of_alarm, send_command
    from agent.alarms.from_settings import catalogue_from_settings
    from agent.alarms.wiring import alarms_in, cluster_in, streams

    plant = _plant(config)
    alarms, request = alarms_in(plant), CommandRequest(by=by or getpass.getuser(), **facts)
    console = console_of_alarm(request.alarm, catalogue_from_settings(plant, alarms))
    if console is None:
        fail(f"{request.alarm}: no console shows this alarm; ids have the form rule:asset", code=WRONG_USAGE)
    command = request.command(time.time_ns())
    sending = send_command(cluster_in(plant), streams(alarms), command, console, timeout_s=wait_s)
    audit = asyncio.run(sending)
    if audit["outcome"] != "done":
        fail(f"{audit['alarm']}: refused: {audit['reason']}", code=FAILED)
    typer.echo(f"{audit['alarm']}: {audit['act']} done by {audit['by']}")


def _plant(config: Path) -> "Plant":
    from agent.settings import load_settings

    return load_settings(config, os.environ)


def _present(config: Path) -> dict[str, dict[str, Any]]:
    plant = _plant(config)

    async def read() -> dict[str, dict[str, Any]]:
        from agent.contracts.alarms import ALARMS

        return {one["alarm"]: one async for one in _documents(plant, ALARMS)}

    return asyncio.run(read())


async def _transitions(plant: "Plant") -> "list[Transition]":
    from agent.alarms.core.transitions import transition_from
    from agent.contracts.alarms import TRANSITIONS

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


def _utc_ns(moment: datetime) -> int:
    return int(moment.replace(tzinfo=UTC).timestamp()) * 1_000_000_000
