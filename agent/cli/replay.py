"""`anchormoe-agent replay`: compute the live agent's events again, offline, from files or a range of Kafka."""

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import typer

from agent.cli.errors import FAILED, fail, run_interruptibly
from agent.cli.inputs import parse_log_range
from agent.cli.progress import count_progress

if TYPE_CHECKING:
    from agent.offline.compare import Comparison
    from agent.offline.event_set import EventName
    from agent.offline.ground_truth import TruthInterval
    from agent.offline.published import PublishedEvents
    from agent.offline.replay import BoundedSource, ReplayResult
    from agent.offline.score import Score
    from agent.settings import LoadedPlant
    from connectors.records import Message

_SHOWN = 10
_DIGEST_SHOWN = 12


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Example: `anchormoe-agent replay --config plant.yaml --input kafka --compare kafka`",
    )(replay)


def replay(
    config: Path = typer.Option(Path("plant.yaml"), "--config", "-c", help="The plant."),
    inputs: list[str] = typer.Option(
        [],
        "--input",
        "-i",
        metavar="PATH|kafka|kafka:TOPIC",
        help="JSONL, CSV or Parquet files; `kafka` for the plant's own topics; `kafka:TOPIC` for another one. "
        "Repeatable. Default: the plant's source.",
    ),
    asset: str | None = typer.Option(
        None, "--asset", help="Asset of files that do not name one; `{file}` stands for the name of the file."
    ),
    first: str | None = typer.Option(
        None, "--from", metavar="OFFSET|TIME", help="Start here; records before it are read only to fill the windows."
    ),
    last: str | None = typer.Option(None, "--to", metavar="OFFSET|TIME", help="End before this."),
    out: Path | None = typer.Option(None, "--out", help="Directory for events.jsonl and dead-letters.jsonl."),
    truth: Path | None = typer.Option(
        None, "--truth", help="The true states as JSON lines; prints how well the events match them."
    ),
    against: str | None = typer.Option(
        None,
        "--compare",
        metavar="PATH|kafka|kafka:TOPIC",
        help="Published events to compare with: a JSONL file, the directory of a jsonl sink, `kafka` for the events "
        "topic of the plant's Kafka sink, or `kafka:TOPIC`. Exit code 1 when they differ.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the summary as one JSON object."),
) -> None:
    """Compute the live agent's events again, as fast as the machine can.

    Reads records from files or from Kafka, without joining a consumer group or committing anything, and runs them
    through the same pipeline with windows in memory. Two runs over the same records write byte-equal files. When the
    input is a copy of the log (files), events are compared without `input`, the position of their record.
    """
    from agent.logs import set_up_logs
    from agent.offline.compare import compare
    from agent.offline.inputs import bounded_source, parse_place
    from agent.offline.published import PublishedEvents, events_in_range
    from agent.offline.replay import warm_up_ms
    from agent.settings import load_plant

    plant = load_plant(config, os.environ)
    log_range = replace(parse_log_range(first, last), warm_up_ms=warm_up_ms(plant.groups))
    set_up_logs(plant.settings.logging.format, "warning")
    intervals = _read_truth(truth)
    places = [parse_place("--input", text) for text in inputs]
    source, from_kafka = bounded_source(plant.settings, places, log_range, asset=asset)
    published = None if against is None else PublishedEvents(plant.settings, parse_place("--compare", against))
    replayed, messages = run_interruptibly(_replay(plant, source, published, quiet=as_json))
    if not replayed.complete:
        fail(f"stopped after {replayed.counters.records} records; nothing was written")
    if out is not None:
        _write(out, replayed)
    scored = None if intervals is None else _score(plant, replayed, intervals)
    compared = None
    if published is not None:
        events = events_in_range(messages, source if from_kafka else None)
        compared = compare(replayed.events, events, without_input=not from_kafka)
    typer.echo(_as_json(replayed, scored, compared) if as_json else _as_text(replayed, scored, compared, out))
    if compared is not None and not compared.same:
        raise typer.Exit(FAILED)


async def _replay(
    plant: "LoadedPlant", source: "BoundedSource", published: "PublishedEvents | None", *, quiet: bool
) -> "tuple[ReplayResult, list[Message]]":
    """The published events are read last: meanwhile the live agent may have handled the newest records."""
    from agent.offline.replay import replay as replay_offline
    from agent.runtime.lifecycle import stop_on_signals

    if published is not None:
        await published.check()
    stop = asyncio.Event()
    with stop_on_signals(stop), count_progress("replay", quiet=quiet) as report:
        replayed = await replay_offline(plant, source, stop=stop, report=report)
    return replayed, await published.read() if published is not None and replayed.complete else []


def _write(out: Path, replayed: "ReplayResult") -> None:
    from agent.offline.event_set import write_lines

    write_lines(out / "events.jsonl", replayed.events.lines())
    write_lines(out / "dead-letters.jsonl", replayed.letters)


def _read_truth(path: Path | None) -> "list[TruthInterval] | None":
    from agent.offline.ground_truth import read_truth

    return None if path is None else read_truth(path.read_bytes().splitlines(), path.name)


def _score(plant: "LoadedPlant", replayed: "ReplayResult", intervals: "list[TruthInterval]") -> "Score | None":
    from agent.offline.score import score

    window_ns = max(group.shape.length * group.grid.period_ns for group in plant.groups)
    return score(map(orjson.loads, replayed.events.values()), intervals, tolerance_ns=window_ns)


def _as_json(replayed: "ReplayResult", scored: "Score | None", compared: "Comparison | None") -> str:
    counters = replayed.counters
    summary: dict[str, Any] = {
        "records": counters.records,
        "records_before": replayed.records_before,
        "windows": counters.windows,
        "events": dict(sorted(counters.events.items())),
        "dead_letters": dict(sorted(counters.dead_letters.items())),
        "seconds": round(replayed.seconds, 3),
        "records_per_s": round(replayed.records_per_s, 1),
    }
    summary |= {} if scored is None else {"score": scored.as_json()}
    summary |= {} if compared is None else {"comparison": compared.as_json()}
    return json.dumps(summary, indent=2, ensure_ascii=False)


def _as_text(replayed: "ReplayResult", scored: "Score | None", compared: "Comparison | None", out: Path | None) -> str:
    speed = f"{replayed.seconds:.1f} s, {replayed.records_per_s:,.0f} records/s"
    before = f"{replayed.records_before} of the records are before --from and only filled the windows"
    lines = [f"{replayed.counters}", *([before] if replayed.records_before else []), speed]
    lines += _nothing_usable(replayed)
    lines += [] if out is None else [f"{len(replayed.events)} events in {out / 'events.jsonl'}"]
    lines += [] if scored is None else _score_lines(scored)
    lines += [] if compared is None else _comparison_lines(compared)
    return "\n".join(lines)


def _nothing_usable(replayed: "ReplayResult") -> list[str]:
    """Why, when no record could be used: mostly it is one mistake in the settings or the call."""
    from connectors.jsonl import from_line

    records = replayed.counters.records - replayed.records_before
    if not replayed.counters.records:
        return ["there are no records to replay, or none between --from and --to"]
    if not replayed.letters or sum(replayed.counters.dead_letters.values()) < records:
        return []
    headers = dict(from_line(replayed.letters[0]).headers)
    return [f"no record could be used; the first one: {headers['dl_detail'].decode()}"]


def _score_lines(score: "Score") -> list[str]:
    known = "" if score.accuracy_when_known is None else f", {score.accuracy_when_known:.1%} where not unknown"
    delays = "no fault was detected"
    if score.delay_median_s is not None:
        delays = f"delay {score.delay_median_s:.1f} s (median), {score.delay_p90_s:.1f} s (p90)"
    states = ", ".join(f"{name} {share:.1%}" for name, share in score.right_share_by_state.items())
    detected = f"{score.episodes - score.missed} of {score.episodes} detected, {score.missed} missed"
    return [
        f"accuracy {score.accuracy:.1%} over {score.hours:.2f} h{known}; unknown {score.unknown_share:.1%}",
        f"accuracy by state: {states}",
        f"faults: {detected}; {delays}",
        f"false alarms: {score.false_alarms} ({score.false_alarms_per_day:.1f} per day)",
        f"changes of state: {score.changes}, {score.false_changes} of them false "
        f"({score.false_changes_per_day:.1f} per day)",
    ]


def _comparison_lines(compared: "Comparison") -> list[str]:
    counts = f"{len(compared.missing)} missing, {len(compared.extra)} extra, {len(compared.different)} different"
    lines = [f"compared with the published events: {compared.equal} equal, {counts}", *_model_lines(compared)]
    for word, names in (("missing", compared.missing), ("extra", compared.extra)):
        lines += [f"  {word}: {_describe(name)}" for name in names[:_SHOWN]]
    lines += [f"  different: {_describe(each.name)}: {', '.join(each.fields)}" for each in compared.different[:_SHOWN]]
    return lines


def _model_lines(compared: "Comparison") -> list[str]:
    if compared.same:
        return []
    replayed, published = _digests(compared.replayed_digests), _digests(compared.published_digests)
    why = "; the plant's bundle is not the one that published them" if compared.other_models else ""
    return [f"  model digests of these events: replayed {replayed}, published {published}{why}"]


def _digests(digests: tuple[str, ...]) -> str:
    return ", ".join(digest[:_DIGEST_SHOWN] for digest in digests) or "none"


def _describe(event: "EventName") -> str:
    from connectors.timestamps import format_iso

    return f"{format_iso(event.time_ns)} {event.asset} {event.type} {event.id}"
