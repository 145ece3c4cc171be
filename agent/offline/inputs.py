"""Where offline commands read from and write to: files, or topics of the plant's Kafka."""

import glob
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import SettingsError
from agent.settings import FileSourceSettings, KafkaSourceSettings, Plant, file_format
from agent.settings.connections import cluster_of, sink_cluster
from connectors.files import FileSource, find_files, matching_files
from connectors.kafka.bounded import BoundedKafkaSource
from connectors.kafka.cluster import Cluster
from connectors.log_range import LogRange

if TYPE_CHECKING:
    from agent.offline.replay import BoundedSource

KAFKA = "kafka"
FORMS = "`kafka` for the plant's own topic, `kafka:TOPIC` for another one, or a path"
_SUFFIXES = frozenset({".jsonl", ".ndjson", ".csv", ".parquet"})


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """A topic of the plant's Kafka; without a name the plant's own."""

    name: str | None = None

    def __str__(self) -> str:
        return KAFKA if self.name is None else f"{KAFKA}:{self.name}"


Place = TopicPlace | Path
"""The way it is written decides: `kafka`, `kafka:TOPIC`, or a path."""


def parse_place(option: str, text: str) -> Place:
    """Does not look for files: `./kafka` is a file, `kafka` never is. Raises SettingsError."""
    if text == KAFKA:
        return TopicPlace()
    if text.startswith(f"{KAFKA}:"):
        if not (topic := text.removeprefix(f"{KAFKA}:")):
            raise SettingsError(f"{option}: {text!r} names no topic; write {FORMS}")
        return TopicPlace(topic)
    return Path(text)


def missing_file(option: str, path: Path) -> SettingsError:
    """For a path that does not exist; names the other form, which may have been meant."""
    return SettingsError(f"{option}: there is no file {path}; a topic is written kafka:TOPIC")


def bounded_source(
    plant: Plant, places: Sequence[Place], log_range: LogRange, *, asset: str | None = None
) -> "tuple[BoundedSource, bool]":
    """The source to replay, and whether it is Kafka; without places the plant's own source.

    `asset` names the asset of files that do not. Raises SettingsError that names the option.
    """
    topics = [place for place in places if isinstance(place, TopicPlace)]
    paths = [place for place in places if isinstance(place, Path)]
    if topics and paths:
        raise SettingsError(f"--input: {topics[0]} and {paths[0]}: read either topics or files")
    if not places and isinstance(plant.source, FileSourceSettings):
        paths = list(plant.source.paths)
    elif not places and not isinstance(plant.source, KafkaSourceSettings):
        kind = plant.source.kind
        raise SettingsError(f"--input: a source of kind {kind} has no records to replay; name files or kafka:TOPIC")
    if paths:
        return _files(plant, paths, log_range, asset), False
    if asset is not None:
        raise SettingsError("--asset: is for files; the records of a topic name their assets themselves")
    return _topics(plant, topics or [TopicPlace()], log_range), True


def _topics(plant: Plant, places: Sequence[TopicPlace], log_range: LogRange) -> BoundedKafkaSource:
    names = [name for place in places for name in source_topics("--input", plant, place)]
    isolation = plant.source.isolation if isinstance(plant.source, KafkaSourceSettings) else "read_committed"
    cluster = plant_cluster("--input", plant, places[0])
    return BoundedKafkaSource(cluster, list(dict.fromkeys(names)), log_range, isolation=isolation)


def source_topics(option: str, plant: Plant, place: TopicPlace) -> tuple[str, ...]:
    """The named topic, or those of the plant's source. Raises SettingsError."""
    if place.name is not None:
        return (place.name,)
    if isinstance(plant.source, KafkaSourceSettings):
        return plant.source.topics
    kind = plant.source.kind
    raise SettingsError(f"{option} kafka: the plant's source is {kind}, not kafka; write kafka:TOPIC or a path")


def plant_cluster(option: str, plant: Plant, place: TopicPlace) -> Cluster:
    """The cluster that the plant reads from, or else writes to. Raises SettingsError."""
    if isinstance(plant.source, KafkaSourceSettings):
        return cluster_of(plant.source.bootstrap, plant.source.security)
    if plant.kafka_sink is None:
        raise SettingsError(f"{option} {place}: the plant has neither a kafka source nor a kafka sink")
    return sink_cluster(plant.kafka_sink)


def _files(plant: Plant, paths: Sequence[Path], log_range: LogRange, asset: str | None) -> FileSource:
    for path in paths:
        if not path.exists() and not glob.glob(str(path), recursive=True):
            raise missing_file("--input", path)
    own = plant.source if isinstance(plant.source, FileSourceSettings) else None
    files = [path for place in matching_files(paths) for path in find_files(place)]
    format, single = file_format(plant, own), own.single_partition if own else True
    if all(path.suffix.lower() in _SUFFIXES for path in files):
        format = replace(format, kind="auto")  # files other than the plant's may have another format
    if asset is not None:
        format = replace(format, asset=asset)
    return FileSource(files, format, single_partition=single, log_range=log_range)
