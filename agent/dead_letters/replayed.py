"""Which dead letters were sent back already: a compacted topic beside theirs, or a file beside theirs."""

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from connectors.append_log import FileAppendLog
from connectors.kafka.admin import TopicPlan, ensure_topics, existing_topics
from connectors.kafka.bounded import read_records
from connectors.kafka.cluster import Cluster
from connectors.kafka.producer import RecordProducer
from connectors.records import Record

_NOTE = b"sent back"


class ReplayedLetters(Protocol):
    """Remembers the letters' origins (`Letter.origin`)."""

    async def known(self) -> set[bytes]: ...
    async def note(self, origins: Collection[bytes]) -> None: ...


class ReplayedLettersTopic:
    """Made by the first note: whoever only looks makes no topic."""

    def __init__(self, cluster: Cluster, letters_topic: str) -> None:
        self._cluster, self._topic = cluster, f"{letters_topic}-sent"

    async def known(self) -> set[bytes]:
        if self._topic not in await existing_topics(self._cluster):
            return set()
        return {record.key async for record in read_records(self._cluster, self._topic) if record.key is not None}

    async def note(self, origins: Collection[bytes]) -> None:
        plan = TopicPlan(self._topic, 1, replication=None, config={"cleanup.policy": "compact"}, exact=False)
        await ensure_topics(self._cluster, [plan])
        writer = RecordProducer(self._cluster)
        try:
            await writer.start()
            await writer.write(self._topic, [Record(0, -1, origin, _NOTE) for origin in origins])
        finally:
            await writer.close()


class ReplayedLettersFile:
    """One origin per line."""

    def __init__(self, directory: Path) -> None:
        self._journal = FileAppendLog(directory / "dead-letters-sent.txt")

    async def known(self) -> set[bytes]:
        return {entry.value for entry in await self._journal.read()}

    async def note(self, origins: Collection[bytes]) -> None:
        if origins:
            await self._journal.append(b"", b"\n".join(origins))
