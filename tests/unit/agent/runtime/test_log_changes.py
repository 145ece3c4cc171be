"""Logs that are replaced, cut or overtaken by retention, commits that somebody moves, layouts that change."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agent.runtime.partitions.log_changes import LogFacts, find_replacement
from agent.runtime.pipeline import Pipeline, PipelineLimits
from agent.windows.commit_metadata import CommitMetadata, LogSeen, RecordMark
from anchormoe.windows import WindowShape
from connectors.memory import MemoryLog, MemorySink, MemoryWindowStore
from connectors.records import EVENTS, Partition, Position, Record
from tests.support.plant import A, data_of, events_of, filled, pipeline_on, pumps, put, run

WAVE = [1.0 if step % 7 < 4 else -1.0 for step in range(60)]
EVERY = PipelineLimits(max_records=3, checkpoint_records=3, poll_timeout_s=0.01)


def all_windows(**options: Any) -> Any:
    return pumps(policy="all", **options)


async def step_until_read(pipeline: Pipeline, log: MemoryLog) -> None:
    async with asyncio.timeout(60):
        while pipeline._takeover.pending or pipeline._ownership.partitions[A].position < log.end_offset(A):
            await pipeline.step()
    await pipeline.checkpoint()


def of_type(sink: MemorySink, kind: str) -> list[dict[str, Any]]:
    return [event for event in data_of(sink) if event["type"] == kind]


def states_by_end(sink: MemorySink) -> dict[str, tuple[str, str | None]]:
    return {event["window"]["end"]: (event["state"], event["abstention"]) for event in of_type(sink, "state")}


def refill(log: MemoryLog, flows: list[float], *, start: int = 100) -> None:
    for step, flow in enumerate(flows):
        put(log, "p1", start + step, flow)


# --- made anew, cut, overwritten -------------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [25, 90], ids=["shorter than before", "longer than before"])
async def test_a_topic_that_was_made_again_is_read_from_its_beginning_and_told(records: int) -> None:
    log, store, sink = filled(WAVE), MemoryWindowStore(), MemorySink()
    await run(log, store=store, group=all_windows())
    log.recreate("readings")
    refill(log, [-1.0] * records, start=5000)
    pipeline, _ = await run(log, store=store, sink=sink, group=all_windows())
    undisturbed = await run(filled([-1.0] * records, start=5000), group=all_windows())
    assert events_of(sink) == events_of(undisturbed[1])
    (told,) = of_type(sink, "log_replaced")
    assert (told["reason"], told["position"], told["end"], told["input"]["offset"]) == ("recreated", 60, records, 0)
    assert pipeline.counters.replaced_logs == {"recreated": 1}
    assert pipeline.counters.records == records
    await run(log, store=store, sink=sink, group=all_windows())
    assert len(of_type(sink, "log_replaced")) == 1


@pytest.mark.parametrize("records", [25, 90], ids=["shorter than before", "longer than before"])
async def test_a_topic_that_is_made_again_under_a_running_agent_is_noticed(records: int) -> None:
    log, store, sink = filled(WAVE), MemoryWindowStore(), MemorySink()
    pipeline = pipeline_on(log, sink, store, bounded=False, group=all_windows(), limits=EVERY)
    await pipeline.start()
    await step_until_read(pipeline, log)
    log.recreate("readings")
    refill(log, [-1.0] * records, start=5000)
    await step_until_read(pipeline, log)
    await step_until_read(pipeline, log)
    await pipeline.close()
    undisturbed = await run(filled([-1.0] * records, start=5000), group=all_windows())
    told = of_type(sink, "log_replaced")
    assert [event["reason"] for event in told] == ["recreated"]
    found = events_of(sink)
    assert {name: found.get(name) for name in events_of(undisturbed[1])} == events_of(undisturbed[1])
    committed = log.commits.get(A)
    assert committed is not None
    assert committed.offset == records


@pytest.mark.parametrize("more", [0, 5, 40], ids=["still shorter", "overwritten", "longer"])
async def test_a_log_that_was_cut_is_told_and_read_as_it_is_now(more: int) -> None:
    log, store, sink = filled(WAVE), MemoryWindowStore(), MemorySink()
    await run(log, store=store, group=all_windows())
    log.cut(A, 50)
    refill(log, [-1.0] * (more + 10 if more else 0), start=150)
    pipeline, _ = await run(log, store=store, sink=sink, group=all_windows())
    (told,) = of_type(sink, "log_replaced")
    assert told["reason"] == ("overwritten" if more else "cut")
    assert told["position"] == 60
    now = MemoryLog([A])
    for record in log.read(A, 0, 1000)[0]:
        now.append(A, record.value, key=record.key, timestamp_ms=record.timestamp)
    assert events_of(sink) == events_of((await run(now, group=all_windows()))[1])
    assert sum(pipeline.counters.replaced_logs.values()) == 1


async def test_a_cut_log_that_grows_beyond_the_position_while_it_is_looked_at_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, store, sink = filled(WAVE), MemoryWindowStore(), MemorySink()
    await run(log, store=store, group=all_windows())
    log.cut(A, 50)

    async def write_meanwhile(seconds: float) -> None:
        refill(log, [-1.0] * 40, start=150)

    monkeypatch.setattr("agent.runtime.partitions.restore.asyncio.sleep", write_meanwhile)
    pipeline = pipeline_on(log, sink, store, bounded=False, group=all_windows(), limits=EVERY)
    await pipeline.start()
    monkeypatch.undo()
    await pipeline.close()
    assert [told["reason"] for told in of_type(sink, "log_replaced")] == ["overwritten"]


async def test_a_cut_log_that_grows_while_its_end_is_asked_for_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    log, store, sink = filled(WAVE), MemoryWindowStore(), MemorySink()
    await run(log, store=store, group=all_windows())
    log.cut(A, 50)
    ends, asked = log.end_offset, [0]

    def grow_first(partition: Partition) -> int:
        asked[0] += partition == A
        if asked[0] == 2:
            asked[0] += 1
            refill(log, [-1.0] * 40, start=150)
        return ends(partition)

    monkeypatch.setattr(log, "end_offset", grow_first)
    pipeline = pipeline_on(log, sink, store, bounded=False, group=all_windows(), limits=EVERY)
    await pipeline.start()
    monkeypatch.undo()
    await pipeline.close()
    assert [told["reason"] for told in of_type(sink, "log_replaced")] == ["overwritten"]


@pytest.mark.parametrize("cut_at", [50, 58], ids=["before the last checkpoint", "since the last checkpoint"])
async def test_a_log_that_is_cut_and_filled_up_between_two_polls_is_noticed_by_its_leader_epoch(cut_at: int) -> None:
    log, store, sink = filled(WAVE[:55]), MemoryWindowStore(), MemorySink()
    limits = PipelineLimits(max_records=3, checkpoint_records=10_000, checkpoint_every_s=3600, poll_timeout_s=0.01)
    pipeline = pipeline_on(log, sink, store, bounded=False, group=all_windows(), limits=limits)
    await pipeline.start()
    await step_until_read(pipeline, log)
    refill(log, WAVE[55:], start=155)
    while pipeline._ownership.partitions[A].position < 60:
        await pipeline.step()
    log.cut(A, cut_at)
    refill(log, [-1.0] * 40, start=160)
    await step_until_read(pipeline, log)
    await step_until_read(pipeline, log)
    await pipeline.close()
    now = MemoryLog([A])
    for record in log.read(A, 0, 1000)[0]:
        now.append(A, record.value, key=record.key, timestamp_ms=record.timestamp)
    # Windows over records that were cut off afterwards have been published: the last word on each counts.
    last = {event["window"]["end"]: event for event in of_type(sink, "state")}
    expected = of_type((await run(now, group=all_windows()))[1], "state")
    assert [last.get(event["window"]["end"]) for event in expected] == expected
    assert [told["reason"] for told in of_type(sink, "log_replaced")] == (["overwritten"] if cut_at < 55 else [])


async def test_a_log_that_was_only_appended_to_is_not_replaced() -> None:
    log, store, sink = filled(WAVE), MemoryWindowStore(), MemorySink()
    await run(log, store=store, sink=sink, group=all_windows())
    refill(log, [-1.0] * 30, start=160)
    await run(log, store=store, sink=sink, group=all_windows())
    assert events_of(sink) == events_of((await run(filled([*WAVE, *[-1.0] * 30]), group=all_windows()))[1])
    assert not of_type(sink, "log_replaced")


def test_another_id_with_the_same_records_is_a_mirror_and_compaction_is_no_replacement() -> None:
    last = Record(199, 5, b"k", b"v")
    seen = LogSeen("one", RecordMark.of(last))
    assert find_replacement(seen, LogFacts(0, 200, "two", last), 200) is None
    assert find_replacement(seen, LogFacts(0, 200, "two", None), 200) == "recreated"
    assert find_replacement(seen, LogFacts(0, 200, "two", Record(199, 6, b"k", b"v")), 200) == "recreated"
    assert find_replacement(seen, LogFacts(0, 200, "one", None), 200) is None
    assert find_replacement(seen, LogFacts(0, 200, "one", Record(199, 6, b"k", b"v")), 200) == "overwritten"
    assert find_replacement(seen, LogFacts(0, 199, "one", None), 200) == "cut"
    assert find_replacement(LogSeen(), LogFacts(0, 199, "one", None), 200) == "cut"
    assert find_replacement(LogSeen(), LogFacts(0, 200, None, None), 200) is None


# --- retention -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("running", [False, True], ids=["stopped", "running"])
async def test_records_that_retention_deleted_before_they_were_read_are_counted_and_told(running: bool) -> None:
    log, store, sink = filled(WAVE), MemoryWindowStore(), MemorySink()
    if not running:
        await run(log, store=store, sink=sink, group=all_windows())
    pipeline = pipeline_on(log, sink, store, bounded=False, group=all_windows(), limits=EVERY)
    await pipeline.start()
    await step_until_read(pipeline, log)
    if not running:
        await pipeline.close()
    refill(log, [-1.0] * 60, start=160)
    log.discard_before(A, 104)
    if not running:
        pipeline = pipeline_on(log, sink, store, bounded=False, group=all_windows(), limits=EVERY)
        await pipeline.start()
    await step_until_read(pipeline, log)
    await pipeline.close()
    (told,) = of_type(sink, "lost_records")
    assert (told["count"], told["position"], told["input"]["offset"]) == (44, 60, 104)
    assert pipeline.counters.lost_records == 44
    after = {end: state for end, state in states_by_end(sink).items() if end >= "1970-01-01T00:02:40Z"}
    assert ("unknown", "history_lost") in after.values()
    whole = [state for end, state in after.items() if end >= "1970-01-01T00:03:28Z"]  # 204 + 4: after the hole
    assert whole
    assert set(whole) == {("low", None)}


class SparseLog(MemoryLog):
    """Every tenth offset has no record, as transaction markers, aborted transactions and compaction leave it."""

    def read(self, partition: Partition, offset: int, max_records: int) -> tuple[Sequence[Record], int]:
        records, position = super().read(partition, offset, max_records)
        return [record for record in records if record.offset % 10 != 3], position


async def test_gaps_in_the_offsets_of_a_whole_log_are_not_lost_records() -> None:
    log, store, sink = SparseLog([A]), MemoryWindowStore(), MemorySink()
    refill(log, WAVE)
    pipeline, _ = await run(log, store=store, sink=sink, group=all_windows())
    assert pipeline.counters.records == 54
    assert pipeline.counters.lost_records == 0
    assert not of_type(sink, "lost_records")


# --- an operator's word ----------------------------------------------------------------------------------------------


async def test_offsets_that_an_operator_sets_forwards_are_obeyed() -> None:
    log, store, sink = filled(WAVE[:30]), MemoryWindowStore(), MemorySink()
    await run(log, store=store, group=all_windows())
    refill(log, WAVE[:30], start=130)
    log.commits.put({A: Position(45)})
    pipeline, _ = await run(log, store=store, sink=sink, group=all_windows())
    assert pipeline.counters.records == 15
    assert pipeline.counters.moved_commits == 1
    assert {event["input"]["offset"] for event in data_of(sink)} <= set(range(45, 60))
    assert set(states_by_end(sink).values()) >= {("unknown", "history_lost"), ("high", None)}
    await run(log, store=store, sink=sink, group=all_windows())
    assert log.commits.get(A) != Position(45)


@pytest.mark.parametrize("metadata", ["", "rebuild=2;at=60", "by hand"])
async def test_offsets_that_an_operator_sets_backwards_are_read_again(metadata: str) -> None:
    log, store, sink, again = filled(WAVE), MemoryWindowStore(), MemorySink(), MemorySink()
    await run(log, store=store, sink=sink, group=all_windows())
    log.commits.put({A: Position(0, metadata)})
    pipeline, _ = await run(log, store=store, sink=again, group=all_windows())
    assert pipeline.counters.records == 60
    assert events_of(again) == events_of(sink)


async def test_an_older_commit_of_ours_that_was_put_back_is_obeyed_with_full_history() -> None:
    log, store, sink, again = filled(WAVE[:40]), MemoryWindowStore(), MemorySink(), MemorySink()
    await run(log, store=store, sink=sink, group=all_windows())
    older = log.commits.get(A)
    refill(log, WAVE[40:], start=140)
    await run(log, store=store, sink=sink, group=all_windows(), limits=EVERY)
    assert older is not None
    log.commits.put({A: older})
    await run(log, store=store, sink=again, group=all_windows())
    whole, repeated = events_of(sink), events_of(again)
    assert repeated
    assert {name: whole[name] for name in repeated} == repeated
    assert min(event["input"]["offset"] for event in data_of(again)) >= 40


async def test_a_commit_of_an_older_version_is_ours() -> None:
    log, store, sink = filled(WAVE[:30]), MemoryWindowStore(), MemorySink()
    await run(log, store=store, sink=sink, group=all_windows())
    committed = log.commits.get(A)
    assert committed is not None
    metadata = CommitMetadata.parse(committed.metadata)
    assert metadata is not None
    log.commits.put({A: Position(committed.offset, f"rebuild={metadata.rebuild}")})
    refill(log, WAVE[30:], start=130)
    pipeline, _ = await run(log, store=store, sink=sink, group=all_windows())
    assert pipeline.counters.moved_commits == 0
    assert events_of(sink) == events_of((await run(filled(WAVE), group=all_windows()))[1])


# --- layouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metadata", ["ours", "of an older version"])
async def test_longer_windows_are_rebuilt_from_the_log_and_not_judged_half_filled(metadata: str) -> None:
    log, store, sink = filled(WAVE), MemoryWindowStore(), MemorySink()
    await run(log, store=store, group=all_windows())
    if metadata != "ours":
        log.commits.put({A: Position(60, "rebuild=57")})
    refill(log, [-1.0] * 40, start=160)
    longer = all_windows(shape=WindowShape(length=32, hop=2, lateness=1))
    await run(log, store=store, sink=sink, group=longer)
    undisturbed = MemorySink()
    await run(filled([*WAVE, *[-1.0] * 40]), sink=undisturbed, group=longer)
    expected = {
        dict(message.headers)["ce_id"].decode(): message.value
        for message, event in zip(undisturbed.of(EVENTS), data_of(undisturbed), strict=True)
        if event["input"]["offset"] >= 60
    }
    assert len(expected) > 15
    assert events_of(sink) == expected


async def test_longer_windows_whose_history_is_gone_from_the_log_say_so() -> None:
    log, store, sink = filled(WAVE), MemoryWindowStore(), MemorySink()
    await run(log, store=store, group=all_windows())
    log.discard_before(A, 50)
    refill(log, [-1.0] * 40, start=160)
    await run(log, store=store, sink=sink, group=all_windows(shape=WindowShape(length=32, hop=2, lateness=1)))
    states = list(states_by_end(sink).values())
    assert states[0] == ("unknown", "history_lost")
    assert states[-1] == ("low", None)


# --- a claim that the store forgot -----------------------------------------------------------------------------------


async def test_a_claim_is_renewed_with_exactly_the_last_commit() -> None:
    log, store, sink = filled(WAVE), MemoryWindowStore(), MemorySink()
    rare = PipelineLimits(max_records=3, checkpoint_records=10_000, checkpoint_every_s=1e9, poll_timeout_s=0.01)
    pipeline = pipeline_on(log, sink, store, bounded=False, group=all_windows(), limits=rare)
    await pipeline.start()
    for _ in range(4):
        await pipeline.step()
    await pipeline.checkpoint()
    before = log.commits.get(A)
    store.flush()
    for _ in range(16):
        await pipeline.step()
    owned = pipeline._ownership.partitions[A]
    assert owned.position > owned.saved
    await pipeline._checkpointer.verify(owned)
    assert log.commits.get(A) == before
    await pipeline.close()  # as a crash does: without a checkpoint
    store.flush()
    await run(log, store=store, sink=sink, group=all_windows())
    assert events_of(sink) == events_of((await run(filled(WAVE), group=all_windows()))[1])
