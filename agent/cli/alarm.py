"""`anchormoe-agent alarm …`: show alarms, acknowledge and shelve them, report on them."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from agent.cli.errors import FAILED, WRONG_USAGE, fail

if TYPE_CHECKING:
    from agent.alarms.core.transitions import Transition
    from agent.settings import Plant

Parsed = TypeVar("Parsed")
commands = typer.Typer(no_args_is_help=True, help="Show alarms, acknowledge and shelve them, report on them.")

CONFIG = typer.Option(Path("plant.yaml"), "--config", "-c", help="The configuration, with a section `alarms`.")
ALARM = typer.Argument(..., metavar="ALARM", help="Id, like bearing-wear:pump-1; see `alarm list`.")
WHY = typer.Option("", "--why", help="Reason, for the audit.")
REASON = typer.Option(..., "--why", help="Reason, for the audit.")
WAIT = typer.Option(20.0, "--wait", min=1, help="Seconds to wait for the command's outcome.")
TOKEN_FILE = typer.Option(
    None,
    "--token-file",
    help="File with your token, see `anchormoe-agent users`. [default: the variable ANCHORMOE_TOKEN]",
)
URL = typer.Option(
    None,
    "--url",
    envvar="ANCHORMOE_ALARMS_URL",
    help="An alarm worker. [default: `alarms.http` of the configuration]",
)
_TOKEN_VARIABLE = "ANCHORMOE_TOKEN"  # noqa: S105  # the name of a variable
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
    from agent.alarms.text import json_text
    from agent.alarms.views import alarm_line, urgency

    found = [one for one in _present(config).values() if every or one["state"] != "normal"]
    for one in sorted(found, key=urgency):
        typer.echo(json_text(one) if as_json else alarm_line(one))
    if not found:
        typer.echo("no alarms", err=True)


@commands.command(epilog="Example: `anchormoe-agent alarm show bearing-wear:pump-1`")
def show(
    alarm: str = ALARM,
    config: Path = CONFIG,
    as_json: bool = typer.Option(False, "--json", help="As a JSON object."),
) -> None:
    """Show one alarm: cause, consequence, what to do, the event that raised it and the strongest evidence since."""
    from agent.alarms.text import json_text, printable
    from agent.alarms.views import alarm_details

    found = _present(config).get(alarm)
    if found is None:
        fail(f"there is no alarm {printable(alarm)}; `alarm list --all` lists all alarms")
    typer.echo(json_text(found, indent=2) if as_json else "\n".join(alarm_details(found)))


@commands.command(epilog="Example: `anchormoe-agent alarm ack bearing-wear:pump-1 --why 'on my way'`")
def ack(
    alarm: str = ALARM,
    why: str = WHY,
    config: Path = CONFIG,
    token_file: Path | None = TOKEN_FILE,
    url: str | None = URL,
    wait: float = WAIT,
) -> None:
    """Acknowledge an alarm: you have seen it and respond to it."""
    _command(Sender(config, token_file, url, wait), verb="ack", alarm=alarm, why=why)


@commands.command(
    epilog="Example: `anchormoe-agent alarm shelve lost-channel:pump-1#flow --for 2h --why 'sensor ordered'`"
)
def shelve(
    alarm: str = ALARM,
    duration: str = typer.Option(..., "--for", metavar="TIME", help="How long, like 30m or 2h."),
    why: str = REASON,
    config: Path = CONFIG,
    token_file: Path | None = TOKEN_FILE,
    url: str | None = URL,
    wait: float = WAIT,
) -> None:
    """Shelve an alarm: hide it for a limited time, with a reason."""
    until = time.time_ns() + _duration_ns(duration)
    _command(Sender(config, token_file, url, wait), verb="shelve", alarm=alarm, why=why, until_ns=until)


@commands.command()
def unshelve(
    alarm: str = ALARM,
    why: str = WHY,
    config: Path = CONFIG,
    token_file: Path | None = TOKEN_FILE,
    url: str | None = URL,
    wait: float = WAIT,
) -> None:
    """End a shelving early."""
    _command(Sender(config, token_file, url, wait), verb="unshelve", alarm=alarm, why=why)


@commands.command("out-of-service")
def out_of_service(
    alarm: str = ALARM,
    why: str = REASON,
    config: Path = CONFIG,
    token_file: Path | None = TOKEN_FILE,
    url: str | None = URL,
    wait: float = WAIT,
) -> None:
    """Take an alarm out of service until `in-service` puts it back; needs the role engineer."""
    _command(Sender(config, token_file, url, wait), verb="out-of-service", alarm=alarm, why=why)


@commands.command("in-service")
def in_service(
    alarm: str = ALARM,
    why: str = WHY,
    config: Path = CONFIG,
    token_file: Path | None = TOKEN_FILE,
    url: str | None = URL,
    wait: float = WAIT,
) -> None:
    """Put an alarm back into service; needs the role engineer."""
    _command(Sender(config, token_file, url, wait), verb="in-service", alarm=alarm, why=why)


@commands.command()
def reset(
    alarm: str = ALARM,
    why: str = WHY,
    config: Path = CONFIG,
    token_file: Path | None = TOKEN_FILE,
    url: str | None = URL,
    wait: float = WAIT,
) -> None:
    """Reset a latched alarm after it has returned and was acknowledged; needs the role engineer."""
    _command(Sender(config, token_file, url, wait), verb="reset", alarm=alarm, why=why)


@commands.command()
def comment(
    alarm: str = ALARM,
    why: str = REASON,
    config: Path = CONFIG,
    token_file: Path | None = TOKEN_FILE,
    url: str | None = URL,
    wait: float = WAIT,
) -> None:
    """Add a comment to the audit."""
    _command(Sender(config, token_file, url, wait), verb="comment", alarm=alarm, why=why)


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
        _write_privately(html, report_html(found, period))
        typer.echo(f"{html}: written", err=True)


@dataclass(frozen=True, slots=True)
class Sender:
    """The options of every command: where it goes, and whose token it has."""

    config: Path
    token_file: Path | None
    url: str | None
    wait_s: float

    def token(self) -> str:
        """Raises SettingsError. A token on the command line would be in the history and in the list of processes."""
        from agent.errors import SettingsError

        try:
            text = os.environ.get(_TOKEN_VARIABLE, "") if self.token_file is None else self.token_file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"--token-file: cannot read {self.token_file}") from error
        if not text.strip():
            raise SettingsError(f"a command needs your token: set {_TOKEN_VARIABLE}, or --token-file; see `users add`")
        if not (text.strip().isascii() and text.strip().isprintable()):
            raise SettingsError("the token has characters that no token has")
        return text.strip()

    def server_url(self, plant: "Plant") -> str:
        """Raises SettingsError."""
        from agent.alarms.wiring import alarms_in
        from agent.errors import SettingsError

        http = alarms_in(plant).http
        if self.url is not None:
            return self.url.rstrip("/")
        if http is None or http.port == 0:
            raise SettingsError("--url: missing, and `alarms.http` does not say where a worker listens")
        return http.url


def _command(sender: Sender, **facts: Any) -> None:
    """Sends the command and prints its outcome; exits with 1 if it was refused."""
    from agent.alarms.commands import AlarmServer, CommandRequest, console_of_alarm, send_command
    from agent.alarms.from_settings import catalogue_from_settings
    from agent.alarms.text import printable
    from agent.alarms.wiring import alarms_in, cluster_in, streams

    plant = _plant(sender.config)
    alarms, request = alarms_in(plant), CommandRequest(**facts)
    if console_of_alarm(request.alarm, catalogue_from_settings(plant, alarms)) is None:
        fail(f"{printable(request.alarm)}: no console shows this alarm; ids have the form rule:asset", code=WRONG_USAGE)
    server = AlarmServer(sender.server_url(plant), sender.token())
    sending = send_command(server, cluster_in(plant), streams(alarms), request, timeout_s=sender.wait_s)
    audit = asyncio.run(sending)
    if audit["outcome"] != "done":
        fail(printable(f"{audit['alarm']}: refused: {audit['reason']}"), code=FAILED)
    typer.echo(printable(f"{audit['alarm']}: {audit['act']} done by {audit['by']}"))


def _plant(config: Path) -> "Plant":
    from agent.settings import load_settings

    return load_settings(config, os.environ)


def _present(config: Path) -> dict[str, dict[str, Any]]:
    plant = _plant(config)

    async def read() -> dict[str, dict[str, Any]]:
        from agent.alarms.received import parse_alarm
        from agent.contracts.alarms import ALARMS

        return {one["alarm"]: one async for one in _published(plant, ALARMS, parse_alarm)}

    return asyncio.run(read())


async def _transitions(plant: "Plant") -> "list[Transition]":
    from agent.alarms.received import parse_transition
    from agent.contracts.alarms import TRANSITIONS

    found = {one.id: one async for one in _published(plant, TRANSITIONS, parse_transition)}
    return sorted(found.values(), key=lambda one: one.at_ns)


async def _published(plant: "Plant", stream: str, parse: Callable[[bytes | None], Parsed]) -> AsyncIterator[Parsed]:
    """What the topic holds; records that are not of the contract are counted and left out."""
    from agent.alarms.wiring import alarms_in, cluster_in, streams
    from connectors.errors import RecordError
    from connectors.kafka.bounded import read_records

    topic, skipped = streams(alarms_in(plant))[stream], 0
    async for record in read_records(cluster_in(plant), topic):
        if record.value is None:
            continue
        try:
            yield parse(record.value)
        except RecordError:
            skipped += 1
    if skipped:
        typer.echo(f"{topic}: {skipped} records are not of the contract and were left out", err=True)


def _duration_ns(text: str) -> int:
    from agent.settings import Duration

    try:
        return int(Duration.parse(text))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from error


def _write_privately(path: Path, text: str) -> None:
    """Alarms may be about patients: others than the user and the group may not read them."""
    from connectors.file_access import FILE_MODE

    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), FILE_MODE)
        file.write(text)


def _utc_ns(moment: datetime) -> int:
    return int(moment.replace(tzinfo=UTC).timestamp()) * 1_000_000_000
