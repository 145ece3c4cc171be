"""What the offline commands read: files, topics, marks in a log, published events."""

import glob
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.errors import WRONG_USAGE, fail

if TYPE_CHECKING:
    from agent.offline.replay import BoundedSource
    from agent.settings import Plant
    from connectors.kafka.cluster import Cluster
    from connectors.log_range import LogPosition, LogRange
    from connectors.records import Message

KAFKA = "kafka"
_TELLING = frozenset({".jsonl", ".ndjson", ".csv", ".parquet"})


def span_of(first: str | None, last: str | None) -> "LogRange":
    from connectors.log_range import LogRange

    return LogRange(_mark("--from", first), _mark("--to", last))


def _mark(option: str, text: str | None) -> "LogPosition | None":
    """Digits are an offset, anything else is an ISO time; without a zone it is UTC."""
    from connectors.log_range import LogPosition
    from connectors.timestamps import NS_PER_MS, parse_iso

    if text is None:
        return None
    if text.isdecimal():
        return LogPosition(offset=int(text))
    try:
        return LogPosition(time_ms=parse_iso(text) // NS_PER_MS)
    except ValueError:
        fail(f"{option}: {text!r} is neither an offset nor a time such as 2026-01-31T08:00:00", code=WRONG_USAGE)


def is_topic(names: list[str]) -> bool:
    """What is there as a file is a file; one word that is none is a topic."""
    files = [name for name in names if Path(name).exists() or glob.glob(name, recursive=True)]
    if files and len(files) < len(names):
        missing = next(name for name in names if name not in files)
        fail(f"--input: there is no file {missing}", code=WRONG_USAGE)
    looks_like_a_path = [name for name in names if "/" in name or Path(name).suffix in _TELLING]
    if not files and looks_like_a_path:
        fail(f"--input: there is no file {looks_like_a_path[0]}", code=WRONG_USAGE)
    return not files


def bounded_source(
    settings: "Plant", names: list[str], span: "LogRange", *, asset: str | None = None
) -> "tuple[BoundedSource, bool]":
    """The source to replay and whether it is Kafka; without names it is the plant's own. `asset` is for files only."""
    from agent.settings import FileSourceSettings, KafkaSourceSettings

    own = settings.source
    if not names and isinstance(own, FileSourceSettings):
        names = [str(path) for path in own.paths]
    if not names and not isinstance(own, KafkaSourceSettings):
        fail(f"--input: name files or a topic; a source of kind {own.kind} has no records to replay", code=WRONG_USAGE)
    if not names or names == [KAFKA] or is_topic(names):
        if asset is not None:
            fail("--asset: the records of a topic name their assets themselves; it is for files", code=WRONG_USAGE)
        return _topics(settings, names, span), True
    return _files(settings, names, span, asset), False


def _topics(settings: "Plant", names: list[str], span: "LogRange") -> "BoundedSource":
    from agent.settings import KafkaSourceSettings
    from connectors.kafka.bounded import BoundedKafkaSource

    own = settings.source
    if names in ([], [KAFKA]) and not isinstance(own, KafkaSourceSettings):
        fail("--input: the plant's source is not Kafka; name the topic", code=WRONG_USAGE)
    topics = own.topics if names in ([], [KAFKA]) and isinstance(own, KafkaSourceSettings) else tuple(names)
    return BoundedKafkaSource(cluster_near(settings, names), topics, span)


def cluster_near(settings: "Plant", names: list[str]) -> "Cluster":
    """Where the plant reads, or else writes."""
    from agent.settings import KafkaSinkSettings, KafkaSourceSettings
    from agent.settings.connections import cluster_of, sink_cluster

    if isinstance(settings.source, KafkaSourceSettings):
        return cluster_of(settings.source.bootstrap, settings.source.security)
    sinks = [sink for sink in settings.sinks if isinstance(sink, KafkaSinkSettings)]
    if not sinks:
        wrong = "there is no such file, and the plant knows no Kafka where it could be a topic"
        fail(f"{', '.join(names)}: {wrong}", code=WRONG_USAGE)
    return sink_cluster(sinks[0])


def _files(settings: "Plant", names: list[str], span: "LogRange", asset: str | None) -> "BoundedSource":
    from agent.settings import FileSourceSettings, file_format
    from connectors.files import FileSource, find_files, matching_files

    own = settings.source if isinstance(settings.source, FileSourceSettings) else None
    paths = [path for place in matching_files(Path(name) for name in names) for path in find_files(place)]
    format, single = file_format(settings, own), own.single_partition if own else True
    if all(path.suffix.lower() in _TELLING for path in paths):
        format = replace(format, kind="auto")  # other files than the plant's may be written otherwise
    if asset is not None:
        format = replace(format, asset=asset)
    return FileSource(paths, format, single_partition=single, log_range=span)


def read_stream(place: Path, stream: str) -> "Iterator[Message]":
    """The messages of a JSONL file, or of a sink's directory: its rotated files first, the oldest in front."""
    from connectors.jsonl import read_messages

    for path in stream_files(place, stream):
        with suppress(FileNotFoundError):  # rotated away meanwhile
            yield from (message for message in read_messages(path) if message.stream == stream)


def stream_files(place: Path, stream: str) -> list[Path]:
    if not place.is_dir():
        return [place]
    newest = place / f"{stream}.jsonl"
    rotated = sorted(place.glob(f"{newest.name}.[0-9]*"), key=lambda path: -int(path.suffix[1:]))
    return [*rotated, *([newest] if newest.exists() else [])]
