"""What the live agent said about an asset at a time: the published event, and the window behind it, read again."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from agent.errors import SettingsError
from agent.event_types import STATE, TYPE_PREFIX
from agent.events.outgoing import OutgoingEvent
from agent.events.payloads import event_source
from agent.offline.inputs import Place, TopicPlace, bounded_source, missing_file, plant_cluster
from agent.offline.replay import replay, warm_up_ms
from agent.runtime.instruments import NullObserver
from agent.settings import JsonlSinkSettings, LoadedPlant, Plant, ResolvedGroup
from agent.settings.connections import sink_cluster
from connectors.jsonl import read_stream
from connectors.kafka.bounded import read_records
from connectors.log_range import LogPosition, LogRange
from connectors.records import EVENTS, Message
from connectors.timestamps import parse_iso

if TYPE_CHECKING:
    from agent.models.compatibility import LoadModel

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SaidEvent:
    """A published state: its id, the time it is about (the end of its window) and its data."""

    id: str
    time_ns: int
    data: Json

    @property
    def digest(self) -> str:
        """Of the bundle that spoke; empty where none did."""
        return str((self.data.get("model") or {}).get("digest", ""))

    @property
    def logits(self) -> dict[str, float]:
        """As published, by class; contract 2 has them in a table."""
        if "classes" in self.data:
            return {row["class"]: float(row["logit"]) for row in self.data["classes"] or []}
        return {name: float(value) for name, value in (self.data.get("logits") or {}).items()}


def events_place(plant: Plant) -> Place:
    """Where the plant publishes: its Kafka topic, or else the directory of its JSON lines. Raises SettingsError."""
    if plant.kafka_sink is not None:
        return TopicPlace()
    directory = next((sink.directory for sink in plant.sinks if isinstance(sink, JsonlSinkSettings)), None)
    if directory is None:
        raise SettingsError("sinks: neither kafka nor jsonl, so there are no events to read; name them with --events")
    return directory


async def find_event(plant: Plant, place: Place, *, asset: str, at_ns: int) -> SaidEvent | None:
    """The latest state of the asset whose window had ended by a time; None without any."""
    latest: SaidEvent | None = None
    async for message in _messages(plant, place):
        found = _state_event(message, event_source(plant.namespace), asset)
        if found is not None and found.time_ns <= at_ns and (latest is None or found.time_ns >= latest.time_ns):
            latest = found
    return latest


async def _messages(plant: Plant, place: Place) -> AsyncIterator[Message]:
    if isinstance(place, Path):
        if not place.exists():
            raise missing_file("--events", place)
        for message in read_stream(place, EVENTS):
            yield message
        return
    sink = plant.kafka_sink
    cluster = sink_cluster(sink) if sink is not None else plant_cluster("--events", plant, place)
    topic = place.name or (sink.topics.events if sink is not None else EVENTS)
    async for record in read_records(cluster, topic, timeout_s=None):
        yield Message(EVENTS, record.key, record.value, tuple(record.headers))


def _state_event(message: Message, source: str, asset: str) -> SaidEvent | None:
    headers = {name: (value or b"").decode(errors="replace") for name, value in message.headers}
    wanted = {"ce_type": f"{TYPE_PREFIX}{STATE}", "ce_source": source, "ce_subject": asset}
    if any(headers.get(name) != value for name, value in wanted.items()):
        return None
    try:
        return SaidEvent(headers["ce_id"], parse_iso(headers["ce_time"]), orjson.loads(message.value or b""))
    except (KeyError, ValueError):  # no event of ours after all
        return None


class _WindowCatcher(NullObserver):
    """Keeps the event with an id, and with it its window."""

    def __init__(self, id: str) -> None:
        self._id = id
        self.found: OutgoingEvent | None = None

    def published(self, outgoing: OutgoingEvent) -> None:
        if outgoing.event.id == self._id:
            self.found = outgoing


async def read_window(
    plant: LoadedPlant, said: SaidEvent, load_model: "LoadModel | None" = None
) -> OutgoingEvent | None:
    """Reads the records behind an event again, as a replay does; None where they do not give it any more.

    Raises SettingsError where the plant's source has no records to read again.
    """
    offset = int(said.data["input"]["offset"])
    span = LogRange(LogPosition(offset=offset), LogPosition(offset=offset + 1), warm_up_ms=warm_up_ms(plant.groups))
    source, _ = bounded_source(plant.settings, [], span)
    catcher = _WindowCatcher(said.id)
    await replay(
        plant, source, stop=asyncio.Event(), report=lambda done, total: None, load_model=load_model, observer=catcher
    )
    return catcher.found


def find_bundle(plant: LoadedPlant, group: ResolvedGroup, digest: str) -> Path | None:
    """The bundle that spoke: the group's, or one of the plant's directory of bundles."""
    from anchormoe.bundle.files import MANIFEST, sha256

    models = plant.settings.models
    others = sorted(models.directory.iterdir()) if models is not None and models.directory.is_dir() else []
    for directory in (group.bundle, *others):
        manifest = directory / MANIFEST
        if manifest.is_file() and sha256(manifest.read_bytes()) == digest:
            return directory
    return None


def group_of(plant: LoadedPlant, name: str) -> ResolvedGroup | None:
    return next((group for group in plant.groups if group.name == name), None)


def largest_difference(published: Mapping[str, float], now: Mapping[str, float]) -> float:
    """Between the scores of an event and those computed again; infinite where a class is missing."""
    return max((abs(value - now.get(name, float("inf"))) for name, value in published.items()), default=float("inf"))
