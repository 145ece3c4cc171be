"""`anchormoe-agent tail`: published events as they arrive, as text or as JSON lines."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import typer

from agent.cli.errors import WRONG_USAGE, fail
from agent.cli.inputs import parse_duration
from agent.event_types import STATE
from connectors.printable import printable, printable_json

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from agent.client import Start
    from agent.contracts import ReceivedEvent
    from agent.settings import KafkaSinkSettings

_SPANS_SHOWN = 3


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: `anchormoe-agent tail --config plant.yaml --asset 'pump-*' --since 10m`")(tail)


def tail(
    config: Path = typer.Option(Path("plant.yaml"), "--config", "-c", help="The plant whose events to show."),
    as_json: bool = typer.Option(False, "--json", help="Print one CloudEvents JSON object per line."),
    asset: list[str] = typer.Option([], "--asset", help="Only this asset or pattern; repeatable."),
    state: list[str] = typer.Option([], "--state", help="Only this state; repeatable."),
    since: str | None = typer.Option(
        None, "--since", metavar="TIME", help="Start with events published since a time, or 10m ago."
    ),
    from_beginning: bool = typer.Option(False, "--from-beginning", help="Start with the oldest event of the topic."),
    limit: str | None = typer.Option(None, "--for", metavar="TIME", help="Stop after 30s, 10m …; default: Ctrl-C."),
) -> None:
    """Show published events as they arrive in the plant's Kafka. Joins no consumer group and commits nothing."""
    from agent.client import read_events
    from agent.settings.connections import sink_cluster

    start, limit_s = _start(since, from_beginning), None if limit is None else parse_duration("--for", limit).seconds
    sink = _kafka_sink(config)
    events = read_events(sink_cluster(sink), topic=sink.topics.events, start=start, assets=asset, states=state)
    typer.echo(f"events of {sink.topics.events} at {sink.bootstrap}; Ctrl-C stops", err=True)
    with suppress(KeyboardInterrupt):  # the usual end, not a failure; the reader is closed by then
        asyncio.run(_show(events, as_json=as_json, limit_s=limit_s))


async def _show(events: "AsyncGenerator[ReceivedEvent, None]", *, as_json: bool, limit_s: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s), aclosing(events):
            async for event in events:
                for line in [printable_json(_json_line(event))] if as_json else map(printable, _text_lines(event)):
                    typer.echo(line)


def _text_lines(event: "ReceivedEvent") -> Iterator[str]:
    """What happened, and for states the evidence below it."""
    from agent.contracts import OtherEvent
    from agent.terminal.story import headline, span_lines, sum_line, why_lines

    data = orjson.loads(event.raw)
    known = not isinstance(event.data, OtherEvent)
    yield f"{event.headers['ce_time']}  {headline(data) if known else f'{event.asset}: {event.type}'}"
    if not known:
        return
    lines = why_lines(data) if event.type == STATE else []
    if data.get("evidence"):
        lines += [*span_lines(data["evidence"])[:_SPANS_SHOWN], sum_line(data)]
    yield from (f"    {line}" for line in lines)


def _json_line(event: "ReceivedEvent") -> str:
    """CloudEvents' JSON format."""
    attributes: dict[str, Any] = {
        name.removeprefix("ce_"): text for name, text in event.headers.items() if name.startswith("ce_")
    }
    data = {"datacontenttype": "application/json", "data": orjson.loads(event.raw)}
    return orjson.dumps(attributes | data).decode()


def _kafka_sink(config: Path) -> "KafkaSinkSettings":
    from agent.settings import load_settings

    sink = load_settings(config, os.environ).kafka_sink
    if sink is None:
        fail(f"{config}: sinks: no kafka sink is configured, so there is no topic to read", code=WRONG_USAGE)
    return sink


def _start(since: str | None, from_beginning: bool) -> "Start":
    """`since` is a duration before now, or an ISO time; without either, what comes next."""
    if since is None:
        return "earliest" if from_beginning else "latest"
    from connectors.timestamps import parse_iso

    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=parse_iso(since) // 1_000)
    except ValueError:
        return datetime.now(tz=UTC) - timedelta(seconds=parse_duration("--since", since).seconds)
