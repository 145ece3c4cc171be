"""Where a plant's dead letters are stored, and questions about them: a Kafka topic or a directory of JSONL files."""

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

from agent.dead_letters.replayed import ReplayedLetters, ReplayedLettersFile, ReplayedLettersTopic
from agent.dead_letters.stored import LetterPosition, ReasonCount, StoredDeadLetter, unreadable_letter
from agent.settings import JsonlSinkSettings, Plant
from agent.settings.connections import sink_cluster
from connectors.jsonl import UnreadableLine, scan_stream
from connectors.kafka.bounded import read_batches
from connectors.kafka.cluster import Cluster
from connectors.records import DEAD_LETTERS


class DeadLetterArchive(Protocol):
    """`read` gives the letters that are there now, oldest first in each partition."""

    @property
    def replayed(self) -> ReplayedLetters: ...
    def read(self) -> AsyncGenerator[StoredDeadLetter, None]: ...


class TopicArchive:
    """The dead-letter topic of a Kafka sink."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self.replayed: ReplayedLetters = ReplayedLettersTopic(cluster, topic)

    async def read(self) -> AsyncGenerator[StoredDeadLetter, None]:
        async with aclosing(read_batches(self._cluster, self._topic)) as batches:
            async for batch in batches:
                for record in batch.records:
                    position = LetterPosition(batch.partition.number, record.offset)
                    yield StoredDeadLetter.of(position, record.key, record.value, record.headers)


class DirectoryArchive:
    """The directory of a JSONL sink; a letter's offset is its line number, counted from the oldest file on."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.replayed: ReplayedLetters = ReplayedLettersFile(directory)

    async def read(self) -> AsyncGenerator[StoredDeadLetter, None]:
        lines = scan_stream(self._directory, DEAD_LETTERS) if self._directory.is_dir() else ()
        for number, line in enumerate(lines):
            position = LetterPosition(0, number)
            if isinstance(line, UnreadableLine):
                yield unreadable_letter(position, line.line, str(line))
            else:
                yield StoredDeadLetter.of(position, line.key, line.value, line.headers)


def find_archive(plant: Plant) -> DeadLetterArchive | None:
    """That of the first Kafka sink, else of the first JSONL sink; None where dead letters are not stored."""
    if (sink := plant.kafka_sink) is not None:
        return TopicArchive(sink_cluster(sink), sink.topics.dead_letters)
    directories = [sink.directory for sink in plant.sinks if isinstance(sink, JsonlSinkSettings)]
    return DirectoryArchive(directories[0]) if directories else None


async def count_by_reason(archive: DeadLetterArchive) -> dict[str, ReasonCount]:
    counts: dict[str, ReasonCount] = {}
    async for letter in archive.read():
        counts.setdefault(letter.reason, ReasonCount()).add(letter)
    return counts


async def newest_letters(archive: DeadLetterArchive, reason: str, limit: int) -> list[StoredDeadLetter]:
    """The last `limit` letters of a reason, oldest first."""
    newest: deque[StoredDeadLetter] = deque(maxlen=limit)
    async for letter in archive.read():
        if letter.reason == reason:
            newest.append(letter)
    return list(newest)


async def find_letter(archive: DeadLetterArchive, position: LetterPosition) -> StoredDeadLetter | None:
    async with aclosing(archive.read()) as letters:
        async for letter in letters:
            if letter.position == position:
                return letter
    return None
