"""One record that stands for very many windows: bounded memory, a loop that goes on, the same events after a crash."""

import asyncio
import time
from collections.abc import Collection, Sequence
from typing import Any

import orjson
import pytest

from agent.runtime.pipeline import Endpoints, Pipeline, PipelineLimits
from connectors.decoding import Decoder
from connectors.errors import ConnectorError
from connectors.memory import MemoryLog, MemorySink, MemorySource, MemoryWindowStore
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import DEAD_LETTERS, Batch, Message, Partition
from tests.support.plant import CHANNELS, A, B, ThresholdModel, data_of, events_of, pumps

QUEUE = 16
"""Windows that may wait for the model."""


def chunk(log: MemoryLog, asset: str, seconds: Sequence[int], *, flow: float = 1.0, partition: Partition = A) -> None:
    value = {"ts": list(seconds), "values": {"flow": [flow] * len(seconds), "pressure": [1.0] * len(seconds)}}
    log.append(partition, orjson.dumps(value), key=asset.encode(), timestamp_ms=0)


def a_log() -> MemoryLog:
    """A few short records of two assets, and a long one: 200 samples, one every third second."""
    log = MemoryLog([A, B])
    chunk(log, "p1", range(100, 110))
    chunk(log, "p2", range(100, 110))
    chunk(log, "p1", range(110, 710, 3), flow=-1.0)
    chunk(log, "p2", range(110, 120))
    chunk(log, "p1", range(710, 720))
    return log


def pipeline_on(
    log: MemoryLog,
    sink: Any,
    *,
    store: Any = None,
    source: Any = None,
    queue_windows: int = QUEUE,
    max_records: int = 100,
    checkpoint_records: int = 1,
    revoke_deadline_s: float = 10.0,
    poll_timeout_s: float = 0.01,
) -> Pipeline:
    fields = tuple(ChannelField(name, name) for name in CHANNELS)
    form = RecordFormat(kind="chunked", time_unit="s", max_clock_skew_ns=None)
    limits = PipelineLimits(
        max_records=max_records,
        queue_windows=queue_windows,
        checkpoint_records=checkpoint_records,
        poll_timeout_s=poll_timeout_s,
        revoke_deadline_s=revoke_deadline_s,
    )
    return Pipeline(
        Endpoints(source or MemorySource(log, bounded=True), store or MemoryWindowStore(), sink),
        Decoder((GroupLayout("pumps", fields, ("*",)),), form),
        {"pumps": pumps(policy="all")},
        limits,
    )


async def undisturbed() -> dict[str, bytes]:
    sink = MemorySink()
    await pipeline_on(a_log(), sink, queue_windows=1 << 20).run(asyncio.Event())
    return events_of(sink)


@pytest.mark.parametrize("queue_windows", [1, 2, 3, 7, QUEUE, 200])
@pytest.mark.parametrize("max_records", [1, 100])
async def test_a_long_record_gives_the_same_events_in_pieces_and_at_once(queue_windows: int, max_records: int) -> None:
    sink = MemorySink()
    pipeline = pipeline_on(a_log(), sink, queue_windows=queue_windows, max_records=max_records)
    await pipeline.run(asyncio.Event())
    assert events_of(sink) == await undisturbed()
    assert pipeline.counters.records == 5
    assert pipeline.counters.windows == len(events_of(sink))


class Watched(MemorySink):
    """Remembers how many windows waited when something was written, and (offset written, offset committed by then)."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__()
        self.pipeline: Pipeline | None = None
        self.log, self.waiting, self.committed = log, list[int](), list[tuple[int, int]]()

    async def write(self, messages: Sequence[Message]) -> None:
        await super().write(messages)
        if self.pipeline is not None:
            self.waiting.append(self.pipeline.progress.queued_windows)
        position = self.log.commits.get(A)
        offsets = [
            dict(message.headers).get("ce_id") and orjson.loads(message.value or b"")["input"] for message in messages
        ]
        reached = max((each["offset"] for each in offsets if each and each["partition"] == 0), default=-1)
        self.committed.append((reached, 0 if position is None else position.offset))


async def test_no_more_windows_wait_than_the_limit_and_the_position_moves_with_the_last_piece() -> None:
    log = a_log()
    sink = Watched(log)
    sink.pipeline = pipeline_on(log, sink)
    await sink.pipeline.run(asyncio.Event())
    assert len(events_of(sink)) > 10 * QUEUE
    assert max(sink.waiting) <= QUEUE
    assert all(committed <= 2 for reached, committed in sink.committed if reached == 2)
    assert sink.pipeline.status.record_windows_max.value(time.monotonic()) == 299


async def test_a_partition_with_nothing_but_long_records_is_stored_between_two_of_them() -> None:
    log, store = MemoryLog([A]), MemoryWindowStore()
    for number in range(6):
        chunk(log, "p1", range(100 + 300 * number, 400 + 300 * number, 3))
    sink = Watched(log)
    await pipeline_on(log, sink, store=store).run(asyncio.Event())
    assert {committed for _, committed in sink.committed} >= {1, 2, 3, 4, 5}


class PollTimes(MemorySource):
    """Remembers, for every poll, how long it may wait and whether everything is paused."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log, bounded=True)
        self.polls: list[tuple[float, bool]] = []
        self._all_paused = False

    def pause(self, partitions: Collection[Partition]) -> None:
        super().pause(partitions)
        self._all_paused = True

    def resume(self, partitions: Collection[Partition]) -> None:
        super().resume(partitions)
        self._all_paused = False

    async def poll(self, *, max_records: int, timeout_s: float) -> list[Batch]:
        self.polls.append((timeout_s, self._all_paused))
        return await super().poll(max_records=max_records, timeout_s=timeout_s)


async def test_paused_partitions_are_not_polled_while_their_backlog_is_worked_off() -> None:
    """A poll of a paused partition discards what was fetched of it, and waits where there is work to do."""
    log = a_log()
    source = PollTimes(log)
    began_s = time.monotonic()
    await pipeline_on(log, MemorySink(), source=source, poll_timeout_s=5.0).run(asyncio.Event())
    assert time.monotonic() - began_s < 5.0, "a poll has waited for records although there was a backlog"
    assert source.polls
    assert not any(paused for _, paused in source.polls)


class Crash(ConnectorError):
    """The process is gone."""


class CrashingSink(MemorySink):
    """The n-th write fails."""

    def __init__(self, writes: int) -> None:
        super().__init__()
        self._left = writes

    async def write(self, messages: Sequence[Message]) -> None:
        self._left -= 1
        if self._left == 0:
            raise Crash("gone")
        await super().write(messages)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("writes", [3, 5, 9, 17, 30])
async def test_a_crash_between_two_pieces_is_replay_equal(writes: int, keep: bool) -> None:
    log, store, first, second = a_log(), MemoryWindowStore(), CrashingSink(writes), MemorySink()
    with pytest.raises(Crash):
        await pipeline_on(log, first, store=store).run(asyncio.Event())
    await pipeline_on(log, second, store=store if keep else MemoryWindowStore()).run(asyncio.Event())
    both = MemorySink()
    both.messages.extend([*first.messages, *second.messages])
    assert events_of(both) == await undisturbed()


async def test_a_revocation_in_the_middle_of_a_long_record_stores_nothing_of_it() -> None:
    log, store, sink = a_log(), MemoryWindowStore(), MemorySink()
    source = MemorySource(log)
    pipeline = pipeline_on(log, sink, store=store, source=source)
    await pipeline.start()
    while not any(event["input"]["offset"] == 2 for event in data_of(sink)):
        await pipeline.step()
    await source.reassign([B])
    committed = log.commits.get(A)
    assert committed is not None
    assert committed.offset <= 2
    await source.reassign([A, B])
    for _ in range(400):
        await pipeline.step()
        if (log.commits.get(A) or committed).offset == 5:
            break
    await pipeline.close()
    assert events_of(sink) == await undisturbed()


class Polled(MemorySource):
    """Counts the polls."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log, bounded=True)
        self.polls = 0

    async def poll(self, *, max_records: int, timeout_s: float) -> list[Batch]:
        self.polls += 1
        return await super().poll(max_records=max_records, timeout_s=timeout_s)


async def test_polling_goes_on_while_a_slow_model_works_on_a_long_record(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ThresholdModel.predict
    log, sink, polls = MemoryLog([A]), MemorySink(), list[int]()
    chunk(log, "p1", range(100, 220))
    source = Polled(log)

    def predict(self: ThresholdModel, *arguments: Any) -> Any:
        before = source.polls
        time.sleep(2.5)  # paused partitions are polled about once a second
        polls.append(source.polls - before)
        return original(self, *arguments)

    monkeypatch.setattr(ThresholdModel, "predict", predict)
    await pipeline_on(log, sink, source=source, queue_windows=60).run(asyncio.Event())
    assert len(events_of(sink)) == 59
    assert polls
    assert min(polls) >= 1


class SlowSink(MemorySink):
    """Takes a while for every write, and counts the polls meanwhile."""

    def __init__(self, source: Polled) -> None:
        super().__init__()
        self._source, self.polls = source, list[int]()

    async def write(self, messages: Sequence[Message]) -> None:
        before = self._source.polls
        await asyncio.sleep(3.0)
        self.polls.append(self._source.polls - before)
        await super().write(messages)


async def test_polling_goes_on_while_a_slow_sink_writes() -> None:
    log = MemoryLog([A])
    chunk(log, "p1", range(100, 106))
    source = Polled(log)
    sink = SlowSink(source)
    await pipeline_on(log, sink, source=source).run(asyncio.Event())
    assert len(events_of(sink)) == 2
    assert max(sink.polls) >= 1


async def test_a_piece_that_raises_ends_its_record_and_only_that(monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.runtime import ingestion

    original: Any = vars(ingestion)["ingest"]

    def ingest(windows: Any, batch: Batch, readings: Any, **options: Any) -> Any:
        if batch.records[0].offset == 2 and int(readings.time_ns.max()) > 400_000_000_000 and len(batch.records) == 1:
            found = original(windows, batch, readings, **options)
            if int(readings.time_ns.min()) > 300_000_000_000:
                raise ValueError("late in the record")
            return found
        return original(windows, batch, readings, **options)

    monkeypatch.setattr(ingestion, "ingest", ingest)
    log, sink = a_log(), MemorySink()
    pipeline = pipeline_on(log, sink)
    await pipeline.run(asyncio.Event())
    [letter] = sink.of(DEAD_LETTERS)
    assert (dict(letter.headers)["dl_reason"], dict(letter.headers)["dl_offset"]) == (b"internal", b"2")
    published = events_of(sink)
    assert published.items() & (await undisturbed()).items()
    assert any(event["input"]["offset"] == 2 for event in data_of(sink))
    assert any(event["input"]["offset"] == 4 for event in data_of(sink))
    committed = log.commits.get(A)
    assert committed is not None
    assert committed.offset == 5


async def test_five_partitions_share_one_limit_of_assets() -> None:
    partitions = [Partition("readings", number) for number in range(5)]
    log, sink = MemoryLog(partitions), MemorySink()
    for partition in partitions:
        for asset in range(100):
            chunk(log, f"{partition.number}-{asset}", [100, 101], partition=partition)
    fields = tuple(ChannelField(name, name) for name in CHANNELS)
    form = RecordFormat(kind="chunked", time_unit="s", max_clock_skew_ns=None)
    pipeline = Pipeline(
        Endpoints(MemorySource(log, bounded=True), MemoryWindowStore(), sink),
        Decoder((GroupLayout("pumps", fields, ("*",)),), form),
        {"pumps": pumps(max_assets=100, total_assets=100)},
        PipelineLimits(max_records=50),
    )
    await pipeline.run(asyncio.Event())
    assert pipeline.counters.dead_letters == {"too_many_assets": 400}


async def test_cancelling_a_drain_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A revocation that takes too long is cancelled; what was in flight is published afterwards."""
    original = ThresholdModel.predict

    def predict(self: ThresholdModel, *arguments: Any) -> Any:
        time.sleep(0.3)
        return original(self, *arguments)

    monkeypatch.setattr(ThresholdModel, "predict", predict)
    log, sink = MemoryLog([A]), MemorySink()
    chunk(log, "p1", range(100, 120))
    pipeline = pipeline_on(log, sink, source=MemorySource(log), queue_windows=1000, checkpoint_records=1 << 40)
    await pipeline.start()
    pipeline._apply_backpressure()
    polled = await pipeline._source.poll(max_records=10, timeout_s=1.0)
    await pipeline._ingest([(batch, pipeline._ownership.partitions[A]) for batch in polled])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await pipeline._in_flight.drain(down_to=0)
    assert not sink.of("events")
    assert await pipeline._in_flight.drain(down_to=0)
    await pipeline.close()
    assert len(events_of(sink)) == 9
