"""One record is stepped over: on request, with its reason, and without touching anything around it."""

import asyncio
from collections.abc import Sequence

import pytest

from agent.runtime.skipped_records import Skip, SkippedRecord, SkippedRecords, parse_record_place
from connectors.append_log import Entry, MemoryAppendLog
from connectors.errors import ConnectorError
from connectors.memory import MemoryLog, MemorySink, MemoryWindowStore
from connectors.records import DEAD_LETTERS, Batch, Message, Partition, Record
from tests.support.plant import A, B, events_of, filled, pipeline_on, pumps, put, run

POISON = Skip(A, 17, "breaks the parser", "anna@hall", "2026-05-01T08:00:00Z")


def requests(*skips: Skip) -> SkippedRecords:
    return SkippedRecords(MemoryAppendLog([skip.encode() for skip in skips]))


class Broken(MemorySink):
    """Stands for anything that one record can break: it ends the agent."""

    def __init__(self, offset: int) -> None:
        super().__init__()
        self._offset = b'"offset":%d}' % offset

    async def write(self, messages: Sequence[Message]) -> None:
        if any(self._offset in (message.value or b"") for message in messages if message.stream != DEAD_LETTERS):
            raise ConnectorError("poisoned")
        await super().write(messages)


async def test_a_record_that_ends_the_agent_can_be_skipped_and_nothing_else_changes() -> None:
    """It works before the first record is read, so an agent that ends again and again gets past it."""
    log, store, sink, group = filled([1.0] * 17), MemoryWindowStore(), Broken(17), pumps(policy="all")
    log.append(A, b'{"ts": 117, "flow": 99, "pressure": 1.0}', key=b"p1", timestamp_ms=117_000)
    for step in range(18, 40):
        put(log, "p1", 100 + step, -1.0)
    for _ in range(2):
        with pytest.raises(ConnectorError, match="poisoned"):
            await run(log, store=store, sink=sink, group=group)
    pipeline, _ = await run(log, store=store, sink=sink, group=group, skips=requests(POISON))
    (letter,) = sink.of(DEAD_LETTERS)
    headers = dict(letter.headers)
    assert (headers["dl_reason"], headers["dl_offset"]) == (b"skipped", b"17")
    assert headers["dl_detail"] == b"breaks the parser (by anna@hall, 2026-05-01T08:00:00Z)"
    assert letter.value == b'{"ts": 117, "flow": 99, "pressure": 1.0}'
    assert pipeline.counters.dead_letters == {"skipped": 1}
    replayed = await run(_copy(log), group=group, skips=requests(POISON))
    assert events_of(sink) == events_of(replayed[1])
    assert events_of(sink) != events_of((await run(_copy(log), group=group))[1])


def _copy(log: MemoryLog) -> MemoryLog:
    """Without its commits."""
    copy = MemoryLog(log.partitions)
    for record in log.read(A, 0, 1000)[0]:
        copy.append(A, record.value, key=record.key, timestamp_ms=record.timestamp)
    return copy


async def test_the_last_record_of_a_log_can_be_skipped() -> None:
    log, store = filled([1.0] * 18), MemoryWindowStore()
    pipeline, sink = await run(log, store=store, skips=requests(POISON))
    assert len(sink.of(DEAD_LETTERS)) == 1
    committed = log.commits.get(A)
    assert committed is not None
    assert committed.offset == 18
    assert pipeline.counters.records == 18
    _, again = await run(log, store=store, skips=requests(POISON))
    assert not again.of(DEAD_LETTERS)


async def test_a_request_that_comes_while_the_agent_runs_counts_for_what_is_not_read_yet() -> None:
    values: list[bytes] = []
    log, sink = filled([1.0] * 10), MemorySink()
    skips = SkippedRecords(MemoryAppendLog(values))
    pipeline = pipeline_on(log, sink, MemoryWindowStore(), bounded=False, skips=skips)
    await pipeline.start()
    for _ in range(6):
        await pipeline.step()
    values.append(POISON.encode())
    await skips._read(skips._requests or MemoryAppendLog([]))
    for step in range(10, 24):
        put(log, "p1", 100 + step, 1.0)
    for _ in range(10):
        await pipeline.step()
    await pipeline.checkpoint()
    await pipeline.close()
    assert [dict(letter.headers)["dl_offset"] for letter in sink.of(DEAD_LETTERS)] == [b"17"]


@pytest.mark.parametrize("offsets", [[3], [0], [9], [0, 1, 9], list(range(10)), [20]])
def test_a_batch_is_cut_around_skipped_records_and_nothing_is_lost(offsets: list[int]) -> None:
    skips = SkippedRecords()
    for offset in offsets:
        skips.add(Skip(A, offset, "r", "b", "t"))
    batch = Batch(A, [Record(offset, 0, None, b"") for offset in range(10)])
    seen: list[int] = []
    for piece in skips.split(batch):
        if isinstance(piece, SkippedRecord):
            assert piece.record.offset in offsets
            seen.append(piece.record.offset)
        else:
            assert piece.records
            assert not {record.offset for record in piece.records} & set(offsets)
            seen += [record.offset for record in piece.records]
    assert seen == list(range(10))


def test_a_request_is_for_its_own_partition_only() -> None:
    skips = SkippedRecords()
    skips.add(POISON)
    batch = Batch(B, [Record(17, 0, None, b"")])
    assert list(skips.split(batch)) == [batch]


async def test_what_is_no_request_is_left_out() -> None:
    values = [b"", b"[]", b"not json", b'{"topic": "readings"}', b'{"offset": "x"}', POISON.encode()]
    skips = SkippedRecords(MemoryAppendLog(values))
    await skips.start()
    assert skips._skips == {A: {17: POISON}}


async def test_a_log_of_requests_that_fails_later_does_not_end_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(MemoryAppendLog):
        tries = 0

        async def read(self) -> list[Entry]:
            self.tries += 1
            if self.tries == 2:
                raise ConnectorError("away")
            return await super().read()

    monkeypatch.setattr("agent.runtime.skipped_records._LOOK_EVERY_S", 0.0)
    failing = Failing([POISON.encode()])
    skips = SkippedRecords(failing)
    await skips.start()
    following = asyncio.create_task(skips.follow())
    while failing.tries < 4:  # noqa: ASYNC110  # there is no event for it
        await asyncio.sleep(0)
    assert not following.done()
    following.cancel()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sensors:0:1841", (Partition("sensors", 0), 1841)),
        ("a.b-c_d:12:0", (Partition("a.b-c_d", 12), 0)),
        ("sensors:0", None),
        ("sensors:0:-1", None),
        (":0:1", None),
        ("sensors:x:1", None),
        ("sensors:0:1:2", None),
        ("sensors:0:²", None),
        ("", None),
    ],
)
def test_a_place_is_topic_partition_and_offset(text: str, expected: tuple[Partition, int] | None) -> None:
    assert parse_record_place(text) == expected


def test_a_request_is_read_as_it_was_written() -> None:
    assert Skip.decode(POISON.encode()) == POISON
    assert POISON.key == b"readings:0:17"
