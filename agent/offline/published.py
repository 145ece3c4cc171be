"""The events that a live agent has published, from files or a topic, to compare a replay with."""

from collections.abc import Iterable
from pathlib import Path

import orjson

from agent.errors import SettingsError
from agent.events.payloads import event_source
from agent.offline.event_set import EventSet
from agent.offline.inputs import Place, TopicPlace, missing_file, plant_cluster
from agent.offline.replay import BoundedSource
from agent.settings import Plant
from agent.settings.connections import sink_cluster
from connectors.jsonl import read_stream
from connectors.kafka.admin import topic_partitions
from connectors.kafka.bounded import read_records
from connectors.kafka.cluster import Cluster
from connectors.records import EVENTS, Message, Partition


class PublishedEvents:
    """The events at a place; `kafka` alone means the events topic of the plant's Kafka sink."""

    def __init__(self, plant: Plant, place: Place) -> None:
        """Raises SettingsError where there can be no events."""
        self._plant, self._place = plant, place
        if isinstance(place, Path) and not place.exists():
            raise missing_file("--compare", place)
        if isinstance(place, TopicPlace) and place.name is None and plant.kafka_sink is None:
            raise SettingsError("--compare kafka: the plant has no kafka sink; write kafka:TOPIC or a path")

    async def check(self) -> None:
        """Raises ConnectorError when the topic is not there: better now than after an hour of replay."""
        if isinstance(self._place, TopicPlace):
            await topic_partitions(self._cluster(self._place), [self._topic(self._place)])

    async def read(self) -> list[Message]:
        """Those of this plant: other plants may publish to the same place."""
        header = ("ce_source", event_source(self._plant.namespace).encode())
        return [message for message in await self._messages() if header in message.headers]

    async def _messages(self) -> list[Message]:
        if isinstance(self._place, Path):
            return list(read_stream(self._place, EVENTS))
        return [
            Message(EVENTS, record.key, record.value, tuple(record.headers))
            async for record in read_records(self._cluster(self._place), self._topic(self._place), timeout_s=None)
        ]

    def _topic(self, place: TopicPlace) -> str:
        sink = self._plant.kafka_sink
        return place.name or (sink.topics.events if sink else "")

    def _cluster(self, place: TopicPlace) -> Cluster:
        """Where the sink writes, which may be another cluster than the source's."""
        sink = self._plant.kafka_sink
        return sink_cluster(sink) if sink is not None else plant_cluster("--compare", self._plant, place)


def events_in_range(messages: Iterable[Message], source: BoundedSource | None) -> EventSet:
    """The events that records in the replayed range of `source` led to; all of them without a source."""
    events = EventSet()
    for message in messages:
        if source is None or _is_in_range(message.value or b"{}", source):
            events.add(message)
    return events


def _is_in_range(value: bytes, source: BoundedSource) -> bool:
    record = orjson.loads(value)["input"]
    replayed = source.offset_ranges.get(Partition(record["topic"], record["partition"]))
    return replayed is None or bool(replayed.start <= record["offset"] < replayed.end)
