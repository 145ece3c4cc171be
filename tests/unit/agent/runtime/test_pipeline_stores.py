"""What a pipeline stores and commits, and how it continues after a restart, a loss or another owner."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Self, TypeVar

import pytest

from agent.runtime import model_queue
from agent.runtime.checkpointer import OutagePolicy
from agent.runtime.instruments import Instruments
from agent.runtime.model_thread import ModelThread
from agent.runtime.pipeline import PipelineLimits
from agent.windows.commit_metadata import CommitMetadata, RecordMark
from connectors.base import Checkpoint, Claim, Fenced
from connectors.errors import ConnectorError, TransientError
from connectors.memory import MemoryLog, MemorySink, MemoryWindowStore
from connectors.records import EVENTS, Message, Partition, Position
from tests.support.plant import A, data_of, events_of, filled, pipeline_on, pumps, put, run, states_of


def committed_position(log: MemoryLog) -> Position:
    position = log.commits.get(A)
    assert position is not None
    return position


async def test_what_is_committed_is_the_next_offset_with_the_rebuild_offset() -> None:
    log = filled([1.0] * 30)
    await run(log)
    position = committed_position(log)
    assert position.offset == 30
    metadata = CommitMetadata.parse(position.metadata)
    assert metadata is not None
    assert 0 <= metadata.rebuild <= 30 - 4
    assert (metadata.at, metadata.last) == (30, RecordMark.of(log.read(A, 29, 1)[0][0]))


async def test_a_restart_goes_on_and_says_nothing_twice() -> None:
    log, store, sink = filled([1.0] * 9), MemoryWindowStore(), MemorySink()
    await run(log, sink=sink, store=store)
    before = len(sink.messages)
    await run(log, sink=sink, store=store)
    assert len(sink.messages) == before
    for step in range(9, 18):
        put(log, "p1", 100 + step, 1.0)
    await run(log, sink=sink, store=store)
    whole = await run(filled([1.0] * 18))
    assert events_of(sink) == events_of(whole[1])


@pytest.mark.parametrize("loss", ["everything", "one ring"])
async def test_lost_windows_are_rebuilt_from_the_log_without_repeating_events(loss: str) -> None:
    flows = [1.0] * 9 + [-1.0] * 2
    log, store, sink = filled(flows), MemoryWindowStore(), MemorySink()
    await run(log, sink=sink, store=store)
    store.flush() if loss == "everything" else store.lose(A, "p1")
    before = len(sink.of(EVENTS))
    for step in range(11, 30):
        put(log, "p1", 100 + step, -1.0)
    await run(log, sink=sink, store=store)
    undisturbed = await run(filled(flows + [-1.0] * 19))
    assert events_of(sink) == events_of(undisturbed[1])
    assert len(sink.of(EVENTS)) == len(events_of(sink))
    assert len(sink.of(EVENTS)) > before


async def test_a_crash_in_the_middle_of_a_rebuild_takes_no_published_event_back() -> None:
    """Until a rebuild has come to where the log was committed, its windows are incomplete."""
    flows = [1.0 if step % 7 < 4 else -1.0 for step in range(120)]
    log, store, sink = filled(flows), MemoryWindowStore(), MemorySink()
    group = pumps(policy="all")
    await run(log, sink=sink, store=store, group=group)
    committed = committed_position(log)
    store.flush()
    rebuilding = pipeline_on(log, sink, store, bounded=False, group=group)
    await rebuilding.start()
    while rebuilding._ownership.partitions[A].position < committed.offset - 4:
        await rebuilding.step()
        await rebuilding.checkpoint()
        assert committed_position(log).offset == committed.offset
    store.flush()
    put(log, "p1", 220, 1.0)
    await rebuilding.step()
    await rebuilding.checkpoint()
    assert committed_position(log).offset >= committed.offset
    await rebuilding.close()
    for step in range(121, 140):
        put(log, "p1", 100 + step, 1.0)
    await run(log, sink=sink, store=store, group=group)
    undisturbed = await run(filled([*flows, *[1.0] * 20]), group=group)
    assert events_of(sink) == events_of(undisturbed[1])


async def test_lost_history_is_still_known_as_lost_after_a_restart() -> None:
    log, store, sink = filled([1.0] * 30), MemoryWindowStore(), MemorySink()
    group = pumps(policy="all")
    await run(log, sink=sink, store=store, group=group)
    store.flush()
    log.discard_before(A, 29)
    put(log, "p1", 130, 1.0)
    await run(log, sink=sink, store=store, group=group)
    for step in range(31, 40):
        put(log, "p1", 100 + step, 1.0)
    after = MemorySink()
    await run(log, sink=after, store=store, group=group)
    reasons = [event["abstention"] for event in data_of(after) if event["type"] == "state"]
    assert reasons[0] == "history_lost"
    assert reasons[-1] is None


async def test_history_that_is_gone_from_the_log_too_gives_unknown_with_the_reason() -> None:
    log, store, sink = filled([1.0] * 30), MemoryWindowStore(), MemorySink()
    await run(log, sink=sink, store=store)
    store.flush()
    log.discard_before(A, 29)
    for step in range(30, 40):
        put(log, "p1", 100 + step, 1.0)
    await run(log, sink=sink, store=store, group=pumps(policy="all"))
    reasons = [event["abstention"] for event in data_of(sink) if event["type"] == "state"]
    assert "history_lost" in reasons
    assert reasons[-1] is None


async def test_a_sink_that_fails_for_good_commits_nothing() -> None:
    class Broken(MemorySink):
        async def write(self, messages: Sequence[Message]) -> None:
            raise ConnectorError("the other side is gone")

    log = filled([1.0] * 20)
    with pytest.raises(ConnectorError, match="gone"):
        await run(log, sink=Broken())
    assert committed_position(log).offset == 0


async def test_a_second_owner_stops_the_first_before_it_publishes() -> None:
    store, log = MemoryWindowStore(), filled([1.0] * 5)

    pipeline = pipeline_on(log, MemorySink(), store, bounded=False)
    stop = asyncio.Event()
    task = asyncio.create_task(pipeline.run(stop))
    await asyncio.sleep(0.05)
    await store.claim(A)
    for step in range(5, 12):
        put(log, "p1", 100 + step, -1.0)
    with pytest.raises(Fenced):
        await task


async def test_a_store_that_is_away_for_a_moment_is_waited_for_when_a_partition_is_taken() -> None:
    class Late(MemoryWindowStore):
        refusals = 2

        async def claim(self, partition: Partition) -> Claim:
            self.refusals -= 1
            if self.refusals >= 0:
                raise TransientError("no answer")
            return await super().claim(partition)

    _, sink = await run(filled([1.0] * 10), store=Late())
    assert states_of(sink) == [(None, "high")]


async def test_without_the_store_publishing_goes_on_and_commits_wait() -> None:
    class Down(MemoryWindowStore):
        down = False

        async def verify(self, claim: Claim) -> None:
            if self.down:
                raise TransientError("no answer")
            await super().verify(claim)

        async def save(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> Sequence[str]:
            if self.down:
                raise TransientError("no answer")
            return await super().save(claim, layout, checkpoint)

    store, sink, log = Down(), MemorySink(), filled([1.0] * 20)
    pipeline = pipeline_on(log, sink, store)
    store.down = True
    await pipeline.run(asyncio.Event())
    assert sink.of(EVENTS)
    assert committed_position(log).offset == 0


async def test_a_store_that_answers_but_keeps_nothing_is_down_all_the_same() -> None:
    class Full(MemoryWindowStore):
        full = True

        async def save(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> Sequence[str]:
            if self.full:
                raise TransientError("the server's memory is full")
            return await super().save(claim, layout, checkpoint)

    now, store, log = 0.0, Full(), filled([1.0] * 20)
    limits = PipelineLimits(max_records=4, checkpoint_records=4, poll_timeout_s=0.01, outage=OutagePolicy(60.0, 300.0))
    every = pumps(policy="all")  # so that the store is asked before each batch
    pipeline = pipeline_on(log, MemorySink(), store, bounded=False, limits=limits, group=every, clock=lambda: now)

    def waits_for_store() -> bool:
        return pipeline.progress.waiting_for_store

    await pipeline.start()
    for now in (0.0, 30.0, 59.0, 61.0, 62.0):  # noqa: B007  # the pipeline's clock
        await pipeline.step()
    assert waits_for_store()
    store.full = False
    now = 70.0
    for _ in range(6):
        await pipeline.step()
    assert not waits_for_store()
    assert committed_position(log).offset == 20
    store.full = True
    put(log, "p1", 120, 1.0)
    now = 80.0
    await pipeline.step()
    now = 381.0
    with pytest.raises(ConnectorError, match="300 s"):
        await pipeline.step()
    await pipeline.close()


async def test_a_store_that_forgot_everything_is_claimed_anew_and_written_whole() -> None:
    log, sink, store = filled([1.0] * 6), MemorySink(), MemoryWindowStore()
    pipeline = pipeline_on(log, sink, store, bounded=False)
    await pipeline.start()
    for _ in range(6):
        await pipeline.step()
    store.flush()
    for step in range(6, 30):
        put(log, "p1", 100 + step, 1.0 if step < 20 else -1.0)
    for _ in range(20):
        await pipeline.step()
    await pipeline.checkpoint()
    await pipeline.close()
    undisturbed = await run(filled([1.0] * 20 + [-1.0] * 10))
    assert events_of(sink) == events_of(undisturbed[1])
    await run(log, sink=sink, store=store)
    assert events_of(sink) == events_of(undisturbed[1])


async def test_a_reset_asset_survives_a_restart() -> None:
    log, store, sink = filled([1.0] * 8, start=1000), MemoryWindowStore(), MemorySink()
    log.append(A, b"", key=b"p1", timestamp_ms=1, headers=[("anchormoe_reset", b"x")])
    await run(log, store=store, sink=sink)
    for step in range(8):
        put(log, "p1", 100 + step, -1.0)
    await run(log, store=store, sink=sink)
    assert states_of(sink) == [(None, "high"), (None, "low")]


Answer = TypeVar("Answer")


class LaggingThread(ModelThread):
    """Every call begins a little late, as on a busy machine."""

    def submit(self, call: Callable[[], Answer]) -> "Future[Answer]":
        def late() -> Answer:
            time.sleep(0.02)
            return call()

        return super().submit(late)


async def test_a_checkpoint_in_the_step_of_a_reset_does_not_store_the_state_that_was_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The state is dropped on the model thread; the checkpoint must not be faster."""
    monkeypatch.setattr(model_queue, "ModelThread", LaggingThread)
    log, store = filled([1.0] * 8), MemoryWindowStore()
    log.append(A, b"", key=b"p1", timestamp_ms=1, headers=[("anchormoe_reset", b"x")])
    limits = PipelineLimits(max_records=100, checkpoint_records=1, poll_timeout_s=0.01)
    pipeline = pipeline_on(log, MemorySink(), store, limits=limits, bounded=False)
    await pipeline.start()
    await pipeline.step()
    await pipeline.close()
    assert committed_position(log).offset == 9
    for step in range(7, 14):
        put(log, "p1", 100 + step, 1.0)
    _, sink = await run(log, store=store)
    assert states_of(sink)[0] == (None, "unknown")


async def test_a_window_from_before_an_asset_expired_is_not_taken_for_lost_history() -> None:
    """What is known of lost history is that of the window's own time, however far ingestion is ahead of the model."""
    reasons = []
    for records_per_poll in (1, 100):
        log, store, group = filled([1.0] * 30), MemoryWindowStore(), pumps(policy="all", expire_after_steps=30)
        await run(log, store=store, group=group)
        store.flush()
        log.discard_before(A, 30)
        for second in range(130, 142):
            put(log, "p1", second, 1.0)
        put(log, "p2", 200, 1.0)  # by the group's clock p1 has expired now
        for second in range(200, 212):
            put(log, "p1", second, 1.0)
        limits = PipelineLimits(max_records=records_per_poll, poll_timeout_s=0.01)
        _, sink = await run(log, store=store, group=group, limits=limits)
        states = [event for event in data_of(sink) if event["type"] == "state" and event["asset"] == "p1"]
        reasons.append([(event["window"]["end"], event["abstention"]) for event in states])
    assert reasons[0] == reasons[1]
    assert (("1970-01-01T00:02:14Z", None)) in reasons[1]


async def test_without_instruments_the_work_is_the_same() -> None:
    """Metrics and status may be removed: nothing is decided by them."""

    class Deaf:
        """Takes every report and knows nothing."""

        def __getattr__(self, name: str) -> Any:
            numbers = ("records", "windows", "checkpoints", "expired_assets", "checkpoint_bytes", "refetched_records")
            return 0 if name in (*numbers, "sequence_gaps") else Deaf()

        def __setattr__(self, name: str, value: object) -> None: ...
        def __call__(self, *arguments: object, **options: object) -> Self:
            return self

        def __enter__(self) -> None: ...
        def __exit__(self, *error: object) -> None: ...
        def __getitem__(self, key: object) -> int:
            return 0

        def __setitem__(self, key: object, value: object) -> None: ...

    class Recording(MemoryWindowStore):
        def __init__(self) -> None:
            super().__init__()
            self.headers: list[bytes] = []

        async def save(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> Sequence[str]:
            self.headers.append(checkpoint.header)
            return await super().save(claim, layout, checkpoint)

    async def outcome(instruments: Instruments | None) -> tuple[list[Message], list[bytes], Position | None]:
        log, store, sink = filled([1.0] * 20 + [None, -1.0] * 20), Recording(), MemorySink()
        log.append(A, b"not json", key=b"p1", timestamp_ms=5)
        for step in range(30):
            put(log, "p2", 100 + step, -1.0)
        limits = PipelineLimits(max_records=4, in_flight=1, checkpoint_records=9, checkpoint_every_s=1e9)
        pipeline = pipeline_on(log, sink, store, limits=limits, instruments=instruments, bounded=False)
        await pipeline.start()
        for _ in range(40):
            await pipeline.step()
        await pipeline.checkpoint()
        await pipeline.close()
        return list(sink.messages), store.headers, log.commits.get(A)

    deaf: Any = Deaf()
    plain = await outcome(None)
    assert await outcome(Instruments(counters=deaf, status=deaf)) == plain
    assert len(plain[1]) > 3
