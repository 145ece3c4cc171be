"""Replays dead letters: sends back the records that the plant can read now, each of them once."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Protocol

from agent.dead_letters.archive import DeadLetterArchive
from agent.dead_letters.pointer import restore_record
from agent.dead_letters.replayed import ReplayedLetters
from agent.dead_letters.stored import (
    ReplayFilter,
    ReplayRecord,
    StoredDeadLetter,
    letter_record,
    replay_record,
    skip_reason,
)
from agent.errors import SettingsError
from agent.settings import KafkaSourceSettings, LoadedPlant
from agent.settings.connections import cluster_of, make_decoder
from connectors.decoding import Decoder
from connectors.kafka.producer import RecordProducer
from connectors.kafka.tolerant import fetch_record
from connectors.records import Partition, RecordLike

_BATCH_SIZE = 500
_MAX_MESSAGE_BYTES = 64 << 20  # the broker decides: what was in its log once may be there again
_DUPLICATE = "duplicate of a letter in this replay"


FetchRecord = Callable[[Partition, int], Awaitable[RecordLike | None]]
"""The record at an offset of the log; None when the log no longer holds it."""


class Producer(Protocol):
    """`connectors.kafka.producer.RecordProducer` is one."""

    async def start(self) -> None: ...
    async def write(self, topic: str, records: Iterable[RecordLike], *, partition: int | None = None) -> None: ...
    async def close(self) -> None: ...


@dataclass(slots=True)
class ReplaySummary:
    """How many letters can be replayed, and how many were skipped for which reason."""

    replayable: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


async def replay_for_plant(
    plant: LoadedPlant, archive: DeadLetterArchive, wanted: ReplayFilter, *, dry_run: bool
) -> ReplaySummary:
    """To the topics of the plant's Kafka source, as its groups and its record format read them now."""
    source = plant.settings.source
    if not isinstance(source, KafkaSourceSettings):
        raise SettingsError(f"source.kind: dead letters can be replayed to kafka only, not to {source.kind}")
    decoder = make_decoder(plant.groups, plant.settings.records)
    cluster = cluster_of(source.bootstrap, source.security)
    producer = None if dry_run else RecordProducer(cluster, max_message_bytes=_MAX_MESSAGE_BYTES)
    try:
        return await replay_letters(archive, decoder, wanted, producer, fetch=partial(fetch_record, cluster))
    finally:
        await decoder.close()


async def replay_letters(
    archive: DeadLetterArchive,
    decoder: Decoder,
    wanted: ReplayFilter,
    producer: Producer | None,
    *,
    fetch: FetchRecord | None = None,
) -> ReplaySummary:
    """Without a producer nothing is sent and nothing is recorded: a dry run. `fetch` finds what pointer letters mean.

    In batches: 1. send, 2. record what was sent. After a crash between the two, a batch is sent again.
    """
    summary = ReplaySummary()
    wanted = replace(wanted, replayed=await archive.replayed.read())
    batch: list[ReplayRecord] = []
    try:
        if producer is not None:
            await producer.start()
        async with aclosing(archive.read()) as letters:
            async for record in _select(_restore_pointers(letters, wanted, fetch, summary), decoder, wanted, summary):
                batch.append(record)
                if len(batch) >= _BATCH_SIZE:
                    await _send(batch, producer, archive.replayed)
                    batch.clear()
        await _send(batch, producer, archive.replayed)
    finally:
        if producer is not None:
            await producer.close()
    return summary


async def _select(
    letters: AsyncIterator[StoredDeadLetter], decoder: Decoder, wanted: ReplayFilter, summary: ReplaySummary
) -> AsyncIterator[ReplayRecord]:
    """The records to send back; counts them and the skipped letters in `summary`."""
    origins: set[bytes] = set()
    async for letter in letters:
        await decoder.prepare([letter_record(letter, wanted)])
        record = replay_record(letter, decoder, wanted)
        if isinstance(record, str):
            summary.skipped[record] += 1
        elif record.origin in origins:
            summary.skipped[_DUPLICATE] += 1
        else:
            origins.add(record.origin)
            summary.replayable += 1
            yield record


async def _restore_pointers(
    letters: AsyncIterator[StoredDeadLetter], wanted: ReplayFilter, fetch: FetchRecord | None, summary: ReplaySummary
) -> AsyncIterator[StoredDeadLetter]:
    """The letters, pointers with the bytes of their records; counts those whose record is gone in `summary`."""
    async for letter in letters:
        if not letter.is_pointer or letter.position in wanted.edits or skip_reason(letter, wanted):
            yield letter
            continue
        record = None if fetch is None else await fetch(letter.source, letter.offset)
        restored = restore_record(letter, record)
        if isinstance(restored, str):
            summary.skipped[restored] += 1
        else:
            yield restored


async def _send(batch: Sequence[ReplayRecord], producer: Producer | None, replayed: ReplayedLetters) -> None:
    if producer is None or not batch:
        return
    for (topic, partition), records in groupby(batch, key=lambda each: (each.topic, each.partition)):
        await producer.write(topic, [each.record for each in records], partition=partition)
    await replayed.add([each.origin for each in batch])
