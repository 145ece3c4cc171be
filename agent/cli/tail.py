"""`anchormoe-agent tail`: the published events as they come, for people or as JSON lines."""

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

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from agent.contracts import ReceivedEvent
    from agent.settings import KafkaSinkSettings

_REASONS = 3


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: `anchormoe-agent tail --config plant.yaml --asset 'pump-*' --since 10m`")(tail)


def tail(
    config: Path = typer.Option(Path("plant.yaml"), "--config", "-c", help="The plant whose events to show."),
    as_json: bool = typer.Option(False, "--json", help="One CloudEvents JSON object per line."),
    asset: list[str] = typer.Option([], "--asset", help="Only this asset or pattern; may be repeated."),
    state: list[str] = typer.Option([], "--state", help="Only this state; may be repeated."),
    since: str | None = typer.Option(None, "--since", help="Begin with what was published 10m ago, or since a time."),
    from_beginning: bool = typer.Option(False, "--from-beginning", help="Begin with the oldest event there is."),
    limit: str | None = typer.Option(None, "--for", help="End after this time, like 30s; else with Ctrl-C."),
) -> None:
    """Show explained events live, from the plant's Kafka. Joins no consumer group and commits nothing."""
    from agent.client import read_events
    from agent.settings.connections import sink_cluster

    begin, limit_s = _begin(since), None if limit is None else _duration_s("--for", limit)
    sink = _kafka_sink(config)
    events = read_events(
        sink_cluster(sink),
        topic=sink.topics.events,
        assets=asset,
        states=state,
        since=begin,
        from_beginning=from_beginning,
    )
    typer.echo(f"events of {sink.topics.events} at {sink.bootstrap}; Ctrl-C ends", err=True)
    with suppress(KeyboardInterrupt):  # the usual end, not a failure; the reader is closed by then
        asyncio.run(_show(events, as_json=as_json, limit_s=limit_s))


async def _show(events: "AsyncGenerator[ReceivedEvent, None]", *, as_json: bool, limit_s: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s), aclosing(events):
            async for event in events:
                for line in [_json_line(event)] if as_json else _told(event):
                    typer.echo(line)


def _told(event: "ReceivedEvent") -> Iterator[str]:
    """A line that says what happened, and for states the reasons below it."""
    from agent.contracts import OtherEvent
    from agent.terminal.story import headline, patch_lines, sum_line

    data = orjson.loads(event.raw)
    known = not isinstance(event.data, OtherEvent)
    yield f"{event.headers['ce_time']}  {headline(data) if known else f'{event.asset}: {event.type}'}"
    if data.get("evidence"):
        yield from (f"    {line}" for line in [*patch_lines(data["evidence"])[:_REASONS], sum_line(data)])


def _json_line(event: "ReceivedEvent") -> str:
    """CloudEvents' JSON format."""
    attributes: dict[str, Any] = {
        name.removeprefix("ce_"): text for name, text in event.headers.items() if name.startswith("ce_")
    }
    data = {"datacontenttype": "application/json", "data": orjson.loads(event.raw)}
    return orjson.dumps(attributes | data).decode()


def _kafka_sink(config: Path) -> "KafkaSinkSettings":
    from agent.settings import KafkaSinkSettings, load_settings

    sinks = [sink for sink in load_settings(config, os.environ).sinks if isinstance(sink, KafkaSinkSettings)]
    if not sinks:
        fail(f"{config}: sinks: none is of kind kafka, so there is no topic to read", code=WRONG_USAGE)
    return sinks[0]


def _begin(since: str | None) -> datetime | None:
    """A duration before now, or an ISO time; without a zone it is UTC, as all our times are."""
    if since is None:
        return None
    from connectors.timestamps import parse_iso

    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=parse_iso(since) // 1_000)
    except ValueError:
        return datetime.now(tz=UTC) - timedelta(seconds=_duration_s("--since", since))


def _duration_s(option: str, text: str) -> float:
    from pydantic_core import PydanticCustomError

    from agent.settings import Duration

    try:
        return Duration.parse(text).seconds
    except PydanticCustomError as error:
        fail(f"{option}: {error}", code=WRONG_USAGE)
