"""Remembers which dead letters were replayed: in a compacted topic or a file next to the dead letters."""

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from connectors.append_log import FileAppendLog
from connectors.kafka.admin import TopicPlan, ensure_topics, existing_topics
from connectors.kafka.bounded import read_records
from connectors.kafka.cluster import Cluster
from connectors.kafka.producer import RecordProducer
from connectors.records import Record

_VALUE = b"sent back"


class ReplayedLetters(Protocol):
    """A set of letter origins (`StoredDeadLetter.origin`)."""

    async def read(self) -> set[bytes]: ...
    async def add(self, origins: Collection[bytes]) -> None: ...


class ReplayedLettersTopic:
    """Created by the first `add`: only reading creates no topic."""

    def __init__(self, cluster: Cluster, letters_topic: str) -> None:
        self._cluster, self._topic = cluster, f"{letters_topic}-sent"

    async def read(self) -> set[bytes]:
        if self._topic not in await existing_topics(self._cluster):
            return set()
        return {record.key async for record in read_records(self._cluster, self._topic) if record.key is not None}

    async def add(self, origins: Collection[bytes]) -> None:
        plan = TopicPlan(self._topic, 1, replication=None, config={"cleanup.policy": "compact"}, exact=False)
        await ensure_topics(self._cluster, [plan])
        producer = RecordProducer(self._cluster)
        try:
            await producer.start()
            await producer.write(self._topic, [Record(0, -1, origin, _VALUE) for origin in origins])
        finally:
            await producer.close()


class ReplayedLettersFile:
    """One origin per line."""

    def __init__(self, directory: Path) -> None:
        self._log = FileAppendLog(directory / "dead-letters-sent.txt")

    async def read(self) -> set[bytes]:
        return {entry.value for entry in await self._log.read()}

    async def add(self, origins: Collection[bytes]) -> None:
        if origins:
            await self._log.append(b"", b"\n".join(origins))
