"""`anchormoe-agent replay`: the events of the live agent again, offline, from files or a range of Kafka."""

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import typer

from agent.cli.errors import FAILED, fail
from agent.cli.inputs import bounded_source, cluster_near, read_stream, require_topic, span_of, topic_batches
from agent.cli.interruption import run_interruptibly
from agent.cli.progress import count_progress

if TYPE_CHECKING:
    from agent.offline.compare import Comparison
    from agent.offline.event_set import EventName, EventSet
    from agent.offline.replay import BoundedSource, ReplayResult
    from agent.offline.score import Score
    from agent.settings import LoadedPlant
    from connectors.records import Message

_SHOWN = 10


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: `anchormoe-agent replay --config plant.yaml --input kafka --compare events`")(replay)


def replay(
    config: Path = typer.Option(Path("plant.yaml"), "--config", "-c", help="The plant."),
    inputs: list[str] = typer.Option(
        [], "--input", "-i", metavar="FILE|TOPIC", help="JSONL, CSV or Parquet files, `kafka`, or a topic; repeatable."
    ),
    asset: str | None = typer.Option(
        None, "--asset", help="Whose recording it is, where files do not say; `{file}`: the file's name says."
    ),
    first: str | None = typer.Option(
        None, "--from", metavar="OFFSET|TIME", help="Begin here; what fills the windows is read before it."
    ),
    last: str | None = typer.Option(None, "--to", metavar="OFFSET|TIME", help="End before this."),
    out: Path | None = typer.Option(None, "--out", help="Directory for events.jsonl and dead-letters.jsonl."),
    truth: Path | None = typer.Option(None, "--truth", help="What really was (JSONL); prints how well it was told."),
    against: str | None = typer.Option(
        None, "--compare", metavar="FILE|DIR|TOPIC", help="Published events to compare with; exit 1 when they differ."
    ),
    as_json: bool = typer.Option(False, "--json", help="The summary as one JSON object."),
) -> None:
    """Give the live agent's events again, as fast as the machine can.

    Reads records from files or from Kafka without joining a group or committing anything, through the same pipeline,
    with windows in memory. Two runs over the same records write byte-equal files. Against a copy of the log (files)
    events are compared without `input`, the position of the record.
    """
    from agent.logs import set_up_logs
    from agent.offline.replay import warm_up_ms
    from agent.settings import load_plant

    plant = load_plant(config, os.environ)
    span = replace(span_of(first, last), warm_up_ms=warm_up_ms(plant.groups))
    set_up_logs(plant.settings.logging.format, "warning")
    intervals = _truth(truth)
    source, from_kafka = bounded_source(plant.settings, inputs, span, asset=asset)
    published = _from_files(against)
    topic = against if published is None else None
    replayed, found = run_interruptibly(_replay(plant, source, topic, quiet=as_json))
    if not replayed.whole:
        fail(f"stopped after {replayed.tally.records} records; nothing was written")
    if out is not None:
        _write(out, replayed)
    scored = None if intervals is None else _score(plant, replayed, intervals)
    own = _of_plant(plant, published or found)
    compared = None if against is None else _compared(replayed.events, own, source, from_kafka)
    typer.echo(_as_json(replayed, scored, compared) if as_json else _told(replayed, scored, compared, out))
    if compared is not None and not compared.same:
        raise typer.Exit(FAILED)


async def _replay(
    plant: "LoadedPlant", source: "BoundedSource", topic: str | None, *, quiet: bool
) -> "tuple[ReplayResult, list[Message]]":
    """What is replayed, and what was published; in this order, so that the live agent had time for the same records."""
    from agent.offline.replay import replay as replayed
    from agent.runtime.signals import stop_on_signals

    if topic is not None:
        await require_topic(_events_cluster(plant, topic), topic)  # better now than after an hour
    stop = asyncio.Event()
    with stop_on_signals(stop), count_progress("replay", quiet=quiet) as report:
        done = await replayed(plant, source, stop=stop, report=report)
    return done, [] if topic is None or not done.whole else await _from_topic(plant, topic)


def _from_files(against: str | None) -> "list[Message] | None":
    """None when it is no file."""
    from connectors.records import EVENTS

    if against is None or not Path(against).exists():
        return None
    return list(read_stream(Path(against), EVENTS))


async def _from_topic(plant: "LoadedPlant", topic: str) -> "list[Message]":
    from connectors.records import EVENTS, Message

    return [
        Message(EVENTS, record.key, record.value, tuple(record.headers))
        async for batch in topic_batches(_events_cluster(plant, topic), topic)
        for record in batch.records
    ]


def _write(out: Path, replayed: "ReplayResult") -> None:
    from agent.offline.event_set import write_lines

    write_lines(out / "events.jsonl", replayed.events.lines())
    write_lines(out / "dead-letters.jsonl", replayed.letters)


def _truth(path: Path | None) -> Any:
    from agent.offline.ground_truth import read_truth

    return None if path is None else read_truth(path.read_bytes().splitlines(), path.name)


def _score(plant: "LoadedPlant", replayed: "ReplayResult", intervals: Any) -> "Score | None":
    from agent.offline.score import score

    window_ns = max(group.shape.length * group.grid.period_ns for group in plant.groups)
    return score(map(orjson.loads, replayed.events.values()), intervals, tolerance_ns=window_ns)


def _of_plant(plant: "LoadedPlant", messages: "list[Message]") -> "list[Message]":
    """Other plants may publish to the same topic."""
    from agent.events.payloads import source_of

    own = ("ce_source", source_of(plant.settings.namespace).encode())
    return [message for message in messages if own in message.headers]


def _compared(events: "EventSet", messages: "list[Message]", source: "BoundedSource", from_kafka: bool) -> "Comparison":
    from agent.offline.compare import compare
    from agent.offline.event_set import EventSet

    published = EventSet()
    for message in messages:
        if not from_kafka or _in_range(message.value or b"{}", source):
            published.add(message)
    return compare(events, published, without_input=not from_kafka)


def _events_cluster(plant: "LoadedPlant", topic: str) -> Any:
    """Events lie where the sink writes them, which may be another cluster than the source's."""
    from agent.settings import KafkaSinkSettings
    from agent.settings.connections import sink_cluster

    for sink in plant.settings.sinks:
        if isinstance(sink, KafkaSinkSettings):
            return sink_cluster(sink)
    return cluster_near(plant.settings, [topic])


def _in_range(value: bytes, source: Any) -> bool:
    """What the live agent made of records that came before or after the replayed range is not compared."""
    from connectors.records import Partition

    made_by = orjson.loads(value)["input"]
    stretch = source.stretches.get(Partition(made_by["topic"], made_by["partition"]))
    return stretch is None or bool(stretch.start <= made_by["offset"] < stretch.end)


def _as_json(replayed: "ReplayResult", scored: "Score | None", compared: "Comparison | None") -> str:
    tally = replayed.tally
    facts: dict[str, Any] = {
        "records": tally.records,
        "records_before": replayed.before,
        "windows": tally.windows,
        "events": dict(sorted(tally.events.items())),
        "dead_letters": dict(sorted(tally.dead_letters.items())),
        "seconds": round(replayed.seconds, 3),
        "records_per_s": round(replayed.records_per_s, 1),
    }
    facts |= {} if scored is None else {"score": scored.as_json()}
    facts |= {} if compared is None else {"comparison": compared.as_json()}
    return json.dumps(facts, indent=2, ensure_ascii=False)


def _told(replayed: "ReplayResult", scored: "Score | None", compared: "Comparison | None", out: Path | None) -> str:
    speed = f"{replayed.seconds:.1f} s, {replayed.records_per_s:,.0f} records/s"
    before = f"{replayed.before} of the records came before --from and filled the windows"
    lines = [f"{replayed.tally}", *([before] if replayed.before else []), speed]
    lines += _told_uselessness(replayed)
    lines += [] if out is None else [f"{len(replayed.events)} events in {out / 'events.jsonl'}"]
    lines += [] if scored is None else _told_score(scored)
    lines += [] if compared is None else _told_comparison(compared)
    return "\n".join(lines)


def _told_uselessness(replayed: "ReplayResult") -> list[str]:
    """Where nothing at all could be used, why: it is mostly one mistake in the settings or the call."""
    from connectors.jsonl import from_line

    if not replayed.tally.records:
        return ["there is no record to replay, or none between --from and --to"]
    if not replayed.letters or sum(replayed.tally.dead_letters.values()) < replayed.tally.records - replayed.before:
        return []
    said = dict(from_line(replayed.letters[0]).headers)
    return [f"no record could be used; the first one: {said['dl_detail'].decode()}"]


def _told_score(score: "Score") -> list[str]:
    known = "" if score.accuracy_when_known is None else f", {score.accuracy_when_known:.1%} of what it was sure about"
    delays = "no fault was found"
    if score.delay_median_s is not None:
        delays = f"delay {score.delay_median_s:.1f} s (median), {score.delay_p90_s:.1f} s (p90)"
    states = ", ".join(f"{name} {share:.1%}" for name, share in score.right_share_by_state.items())
    return [
        f"right {score.accuracy:.1%} of {score.hours:.2f} h{known}; unknown {score.unknown_share:.1%}",
        f"right by state: {states}",
        f"faults: {score.episodes - score.missed} of {score.episodes} found, {score.missed} missed; {delays}",
        f"false alarms: {score.false_alarms} ({score.false_alarms_per_day:.1f} per day)",
    ]


def _told_comparison(compared: "Comparison") -> list[str]:
    counts = f"{len(compared.missing)} missing, {len(compared.extra)} extra, {len(compared.different)} different"
    lines = [f"compared: {compared.equal} equal, {counts}"]
    for word, names in (("missing", compared.missing), ("extra", compared.extra)):
        lines += [f"  {word}: {_named(name)}" for name in names[:_SHOWN]]
    lines += [f"  different: {_named(each.name)}: {', '.join(each.fields)}" for each in compared.different[:_SHOWN]]
    return lines


def _named(event: "EventName") -> str:
    from agent.events.ids import iso_time

    return f"{iso_time(event.time_ns)} {event.asset} {event.type} {event.id}"
