"""The whole way of a sample with in-memory connectors: what is published, counted and dead-lettered."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

import pytest
from structlog.testing import capture_logs

from agent.models.activations import Activation
from agent.models.classifier import ModelName
from agent.models.schedule import ActiveModel
from agent.runtime.pipeline import Endpoints, Pipeline, PipelineLimits
from anchormoe.windows import WindowShape
from connectors.decoding import Decoder
from connectors.errors import ConnectorError
from connectors.memory import MemoryLog, MemorySink, MemorySource, MemoryWindowStore
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import DEAD_LETTERS, EVENTS, STATES, Message, Partition
from connectors.timestamps import NS_PER_S
from tests.support.event_sums import require_exact_sums
from tests.support.plant import (
    CHANNELS,
    A,
    B,
    data_of,
    events_of,
    filled,
    pipeline_on,
    pumps,
    put,
    run,
    states_of,
)


async def test_a_change_of_state_is_published_once_with_its_evidence() -> None:
    _, sink = await run(filled([1.0] * 10 + [-1.0] * 10))
    assert states_of(sink) == [(None, "high"), ("high", "low")]
    change = data_of(sink)[-1]
    require_exact_sums(change)
    assert [span["channels"] for span in change["evidence"]["spans"]] == [["flow"], ["flow"]]
    assert change["why_not"]["class"] == "high"
    assert change["text"].endswith("speaks for `low` (50 %), runner-up `high` (50 %)")
    assert change["window"]["end"] > change["window"]["start"]
    assert change["input"]["topic"] == "readings"


async def test_every_window_is_published_when_asked_for() -> None:
    _, sink = await run(filled([1.0] * 12), group=pumps(policy="all"))
    ends = [event["window"]["end"] for event in data_of(sink)]
    assert ends == sorted(set(ends))
    assert len(ends) == 5


async def test_groups_with_windows_of_different_lengths_are_classified_together() -> None:
    log, sink = MemoryLog([A]), MemorySink()
    for second in range(100, 124):
        put(log, "p1", second, 1.0)
        put(log, "f1", second, -1.0)
    fields = tuple(ChannelField(name, name) for name in CHANNELS)
    layouts = [GroupLayout("pumps", fields, ("p*",)), GroupLayout("fans", fields, ("f*",))]
    long = pumps(name="fans", policy="all", shape=WindowShape(length=8, hop=2, lateness=1))
    pipeline = Pipeline(
        Endpoints(MemorySource(log, bounded=True), MemoryWindowStore(), sink),
        Decoder(layouts, RecordFormat(time_unit="s", max_clock_skew_ns=None)),
        {"pumps": pumps(policy="all"), "fans": long},
        PipelineLimits(max_records=48),
    )
    await pipeline.run(asyncio.Event())
    last = {event["asset"]: event for event in data_of(sink)}.values()
    found = {(event["asset"], event["state"], event["evidence"]["spans"][0]["contribution"]) for event in last}
    assert found == {("p1", "high", 4.0), ("f1", "low", 8.0)}  # all steps are equal: one span


async def test_the_last_state_follows_its_event_and_is_keyed_by_asset() -> None:
    _, sink = await run(filled([1.0] * 10))
    streams = [message.stream for message in sink.messages]
    assert streams.index(EVENTS) < streams.index(STATES)
    assert sink.of(STATES)[-1].key == b"p1"
    assert data_of(sink, STATES)[-1]["state"] == "high"


async def test_a_new_owner_publishes_the_states_it_found_and_again_from_time_to_time() -> None:
    now = 0.0
    log, store = filled([1.0] * 10), MemoryWindowStore()
    await run(log, store=store)
    put(log, "p1", 110, 1.0)
    sink = MemorySink()
    pipeline = pipeline_on(log, sink, store, bounded=False, clock=lambda: now)
    await pipeline.start()
    for now in (10.0, 11.0, 20.0, 620.0):  # noqa: B007  # the pipeline's clock
        await pipeline.step()
    await pipeline.close()
    assert [(state["asset"], state["state"]) for state in data_of(sink, STATES)] == [("p1", "high")] * 2
    assert not [event for event in data_of(sink) if event["type"] == "state"]


async def test_unusable_and_late_records_become_dead_letters_with_the_original_bytes() -> None:
    log = filled([1.0] * 10)
    log.append(A, b"not json", key=b"p1", timestamp_ms=5)
    put(log, "p1", 90, 1.0)
    pipeline, sink = await run(log)
    letters = sink.of(DEAD_LETTERS)
    assert [dict(letter.headers)["dl_reason"] for letter in letters] == [b"not_json", b"late"]
    assert letters[0].value == b"not json"
    assert dict(letters[0].headers)["dl_offset"] == b"10"
    assert dict(pipeline.counters.dead_letters) == {"not_json": 1, "late": 1}
    assert pipeline.counters.examples["late"].startswith("readings[0]@11: ")


async def test_an_asset_in_two_partitions_is_judged_by_each_of_them_whoever_owns_them() -> None:
    """Between partitions there is no order, so nothing may depend on which of them is read first, or by whom."""

    def spread(partitions: Sequence[Partition]) -> MemoryLog:
        log = MemoryLog(partitions)
        for step in range(40):
            flows = {A: 1.0 if step % 14 < 7 else -1.0, B: -1.0 if step % 10 < 5 else 1.0}
            for partition in partitions:
                put(log, "p1", 100 + step, flows[partition], partition=partition)
        return log

    async def published(*logs: MemoryLog, max_records: int) -> set[tuple[bytes, bytes | None]]:
        found: set[tuple[bytes, bytes | None]] = set()
        for log in logs:
            chosen = PipelineLimits(max_records=max_records, poll_timeout_s=0.01)
            pipeline, sink = await run(log, group=pumps(policy="all"), limits=chosen)
            assert not pipeline.counters.dead_letters
            found |= {(dict(event.headers)["ce_id"], event.value) for event in sink.of(EVENTS)}
        return found

    with capture_logs() as logs:
        one_agent = await published(spread([A, B]), max_records=3)
    twins = [line for line in logs if line["event"].startswith("an asset sends to two partitions")]
    assert [(line["asset"], line["partitions"]) for line in twins] == [("p1", ["readings[0]", "readings[1]"])]
    two_agents = await published(spread([A]), spread([B]), max_records=100)
    assert one_agent == two_agents == await published(spread([B, A]), max_records=7)
    assert len(one_agent) > 30


async def test_assets_beyond_the_limit_are_dead_lettered_and_counted() -> None:
    log = filled([1.0] * 4)
    put(log, "p2", 104, 1.0)
    pipeline, _ = await run(log, group=pumps(max_assets=1))
    assert dict(pipeline.counters.dead_letters) == {"too_many_assets": 1}


async def test_silence_gives_one_gap_and_no_previous_state_across_it() -> None:
    log = filled([1.0] * 8)
    for step in range(8):
        put(log, "p1", 300 + step, 1.0)
    _, sink = await run(log)
    assert [event["type"] for event in data_of(sink)] == ["state", "gap", "state"]
    assert states_of(sink) == [(None, "high"), (None, "high")]


async def test_a_channel_that_drops_out_is_named_when_it_goes_and_when_it_comes_back() -> None:
    _, sink = await run(filled([1.0] * 8 + [None] * 6 + [1.0] * 8))
    technical = [(event["type"], event["channel"]) for event in data_of(sink) if event["kind"] == "technical"]
    assert technical == [("channel_dropout", "flow"), ("channel_back", "flow")]


async def test_a_long_classification_counts_as_progress_before_anything_is_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A slow machine with a backlog is not stuck: a watchdog that threw its work away would never let it finish."""
    progressed: list[int] = []
    before_writing: list[int] = []
    monkeypatch.setattr("agent.health.progress.Progress.advanced", lambda progress: progressed.append(1))

    class Listening(MemorySink):
        async def write(self, messages: Sequence[Message]) -> None:
            before_writing.append(len(progressed))
            await super().write(messages)

    limits = PipelineLimits(max_records=5000, poll_timeout_s=0.01)
    await run(filled([1.0] * 100), sink=Listening(), group=pumps(policy="all"), limits=limits)
    assert before_writing[0] > 1


async def test_an_asset_that_stops_sending_is_reported_once_by_the_wall_clock() -> None:
    now = 0.0
    log, sink = filled([1.0] * 6), MemorySink()
    pipeline = pipeline_on(log, sink, MemoryWindowStore(), bounded=False, clock=lambda: now)
    await pipeline.start()
    for _ in range(10):
        await pipeline.step()
    assert not [event for event in data_of(sink) if event["type"] == "no_data"]
    now = 21.0
    for _ in range(3):
        await pipeline.step()
    (silence,) = [event for event in data_of(sink) if event["type"] == "no_data"]
    assert (silence["asset"], silence["last_sample"]) == ("p1", "1970-01-01T00:01:45Z")
    await pipeline.close()


async def test_a_model_that_hangs_does_not_keep_the_other_parts_from_closing() -> None:
    hanging = threading.Event()
    closed: list[str] = []

    class Closing(MemorySink):
        async def close(self) -> None:
            closed.append("sink")
            raise ConnectorError("the disk is full")

    class Store(MemoryWindowStore):
        async def close(self) -> None:
            closed.append("store")

    limits = PipelineLimits(poll_timeout_s=0.01, stop_deadline_s=0.1, close_deadline_s=0.1)
    pipeline = pipeline_on(filled([1.0] * 10), Closing(), Store(), limits=limits)
    pipeline._model._model.submit(hanging.wait)
    with pytest.raises(ConnectorError, match=r"shutdown took longer than 0\.1 s"):
        await pipeline.run(asyncio.Event())
    assert closed == ["sink", "store"]
    hanging.set()


async def test_a_clock_that_went_back_is_reported_once_and_its_samples_touch_no_window() -> None:
    log = filled([1.0] * 8, start=1000)
    for step in range(12):
        put(log, "p1", 100 + step, -1.0)
    pipeline, sink = await run(log)
    (back,) = [event for event in data_of(sink) if event["type"] == "clock_back"]
    assert (back["watermark"], back["sample"]) == ("1970-01-01T00:16:47Z", "1970-01-01T00:01:43Z")
    assert pipeline.counters.dead_letters["late"] == 12
    assert states_of(sink) == [(None, "high")]


async def test_after_a_reset_in_the_log_an_asset_begins_afresh_in_a_replay_too() -> None:
    def with_reset() -> MemoryLog:
        log = filled([1.0] * 8, start=1000)
        put(log, "p1", 100, -1.0)
        log.append(A, b"", key=b"p1", timestamp_ms=1, headers=[("anchormoe_reset", b"clock was ahead")])
        for step in range(8):
            put(log, "p1", 100 + step, -1.0)
        return log

    pipeline, sink = await run(with_reset())
    assert states_of(sink) == [(None, "high"), (None, "low")]
    assert dict(pipeline.counters.dead_letters) == {"late": 1}
    _, again = await run(with_reset(), limits=PipelineLimits(max_records=100, poll_timeout_s=0.01))
    assert events_of(sink) == events_of(again)


async def test_a_control_record_with_a_value_is_a_dead_letter_and_resets_nothing() -> None:
    log = filled([1.0] * 8)
    log.append(A, b"{}", key=b"p1", timestamp_ms=1, headers=[("anchormoe_reset", b"x")])
    pipeline, sink = await run(log)
    assert dict(pipeline.counters.dead_letters) == {"bad_control": 1}
    assert pipeline.counters.records == 9
    assert states_of(sink) == [(None, "high")]


async def test_an_asset_that_was_reset_and_sends_no_more_is_not_reported_as_idle() -> None:
    now = 0.0
    log, sink = filled([1.0] * 6), MemorySink()
    log.append(A, b"", key=b"p1", timestamp_ms=1, headers=[("anchormoe_reset", b"x")])
    pipeline = pipeline_on(log, sink, MemoryWindowStore(), bounded=False, clock=lambda: now)
    await pipeline.start()
    for _ in range(10):
        await pipeline.step()
    now = 21.0
    await pipeline.step()
    await pipeline.close()
    assert not [event for event in data_of(sink) if event["type"] == "no_data"]


async def test_assets_outcomes_delays_and_the_model_are_told_by_group() -> None:
    log = filled([1.0] * 10 + [-1.0] * 10)
    pipeline, sink = await run(log)
    status, counters = pipeline.status, pipeline.counters
    assert sum(counters.judged.values()) == counters.windows > 0
    assert {group for group, _ in counters.judged} == {"pumps"}
    states = len([event for event in data_of(sink) if event["type"] == "state"])
    assert sum(status.event_delay.counts) == states == 2
    assert status.event_delay.counts[-1] == 2  # seconds after 1970: behind by more than the last bound
    assert status.last_commit_s is not None
    assert dict(status.assets()) == {("pumps", "low"): 1}
    assert list(status.models()) == ["pumps"]


async def test_a_window_in_the_future_has_no_negative_delay() -> None:
    pipeline, _ = await run(filled([1.0] * 10, start=4_000_000_000))
    assert pipeline.status.event_delay.counts[0] == 1
    assert pipeline.status.event_delay.total == 0.0


async def test_the_model_of_the_newest_window_is_named_and_a_refused_one_is_not() -> None:
    group = pumps()
    newer = replace(group.configured, name=ModelName("newer", "2", "e" * 64))
    for second, loaded in ((104, newer), (108, None), (10_000, newer)):
        activation = Activation("pumps", second * NS_PER_S, "e" * 64, "newer", "somebody", 0, "")
        group.schedule.add(activation, partial(_loaded_at_once, loaded))
    assert group.current_model.name.name == "threshold"
    pipeline, _ = await run(filled([1.0] * 20), group=group)
    assert pipeline.status.models()["pumps"].name == "newer"


def _loaded_at_once(model: ActiveModel | None, _: Activation) -> "Future[ActiveModel | None]":
    future: Future[ActiveModel | None] = Future()
    future.set_result(model)
    return future
