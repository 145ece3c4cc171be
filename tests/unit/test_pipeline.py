"""The whole way of a sample, on the in-process connectors: what is published, counted, refused and stored."""

import asyncio
import threading
from dataclasses import replace

import orjson
import pytest

from agent.checkpointer import Endurance
from agent.pipeline import Pace, Pipeline
from anchormoe.windows import WindowShape
from connectors.decoding import Decoder
from connectors.errors import ConnectorError, TransientError
from connectors.layouts import ChannelField, GroupLayout, RecordFormat
from connectors.memory import MemoryLog, MemorySink, MemorySource, MemoryWindowStore
from connectors.records import DEAD_LETTERS, EVENTS, STATES, Position
from connectors.seams import Fenced
from tests.plant import CHANNELS, A, B, events_of, pipeline_on, put, watched


def filled(flows, *, asset="p1", start=100):
    log = MemoryLog([A, B])
    for step, flow in enumerate(flows):
        put(log, asset, start + step, flow)
    return log


async def run(log, *, sink=None, store=None, **options):
    sink = sink or MemorySink()
    pipeline = pipeline_on(log, sink, store or MemoryWindowStore(), **options)
    await pipeline.run(asyncio.Event())
    return pipeline, sink


def data_of(sink, stream=EVENTS):
    return [orjson.loads(message.value) for message in sink.of(stream)]


def states_of(sink):
    return [(event["previous_state"], event["state"]) for event in data_of(sink) if event["type"] == "state"]


async def test_a_change_of_state_is_published_once_with_its_evidence():
    _, sink = await run(filled([1.0] * 10 + [-1.0] * 10))
    assert states_of(sink) == [(None, "high"), ("high", "low")]
    change = data_of(sink)[-1]
    evidence = change["evidence"]
    shown = sum(patch["contribution"] for patch in evidence["patches"])
    assert evidence["context"] + shown + evidence["remainder"] == pytest.approx(change["logits"]["low"], abs=1e-9)
    assert change["window"]["end"] > change["window"]["start"]
    assert change["input"]["topic"] == "readings"


async def test_every_window_is_published_when_asked_for():
    _, sink = await run(filled([1.0] * 12), group=watched(policy="all"))
    ends = [event["window"]["end"] for event in data_of(sink)]
    assert ends == sorted(set(ends))
    assert len(ends) == 5


async def test_groups_with_windows_of_other_lengths_are_judged_side_by_side():
    log, sink = MemoryLog([A]), MemorySink()
    for second in range(100, 124):
        put(log, "p1", second, 1.0)
        put(log, "f1", second, -1.0)
    fields = tuple(ChannelField(name, name) for name in CHANNELS)
    layouts = [GroupLayout("pumps", fields, ("p*",)), GroupLayout("fans", fields, ("f*",))]
    long = replace(watched(policy="all", shape=WindowShape(length=8, hop=2, lateness=1)), name="fans")
    pipeline = Pipeline(
        source=MemorySource(log, bounded=True),
        store=MemoryWindowStore(),
        sink=sink,
        decoder=Decoder(layouts, RecordFormat(time_unit="s", max_clock_skew_ns=None)),
        groups={"pumps": watched(policy="all"), "fans": long},
        pace=Pace(max_records=48),
    )
    await pipeline.run(asyncio.Event())
    last = {event["asset"]: event for event in data_of(sink)}.values()
    steps = {(event["asset"], event["state"], len(event["evidence"]["patches"])) for event in last}
    assert steps == {("p1", "high", 4), ("f1", "low", 7)}  # seven of eight equal steps hold 80 % of the evidence


async def test_the_last_state_follows_its_event_and_is_keyed_by_asset():
    _, sink = await run(filled([1.0] * 10))
    streams = [message.stream for message in sink.messages]
    assert streams.index(EVENTS) < streams.index(STATES)
    assert sink.of(STATES)[-1].key == b"p1"
    assert data_of(sink, STATES)[-1]["state"] == "high"


async def test_a_new_owner_states_again_what_it_found_and_then_now_and_then():
    now = 0.0
    log, store = filled([1.0] * 10), MemoryWindowStore()
    await run(log, store=store)
    put(log, "p1", 110, 1.0)
    sink = MemorySink()
    pipeline = pipeline_on(log, sink, store, bounded=False, clock=lambda: now)
    await started(pipeline)
    for now in (10.0, 11.0, 20.0, 620.0):  # noqa: B007  # the pipeline's clock
        await pipeline.step()
    await pipeline._close()
    assert [(state["asset"], state["state"]) for state in data_of(sink, STATES)] == [("p1", "high")] * 2
    assert not [event for event in data_of(sink) if event["type"] == "state"]


async def test_unusable_and_late_records_become_dead_letters_with_the_original_bytes():
    log = filled([1.0] * 10)
    log.append(A, b"not json", key=b"p1", timestamp_ms=5)
    put(log, "p1", 90, 1.0)
    pipeline, sink = await run(log)
    letters = sink.of(DEAD_LETTERS)
    assert [dict(letter.headers)["dl_reason"] for letter in letters] == [b"not_json", b"late"]
    assert letters[0].value == b"not json"
    assert dict(letters[0].headers)["dl_offset"] == b"10"
    assert dict(pipeline.tally.dead_letters) == {"not_json": 1, "late": 1}


async def test_an_asset_belongs_to_the_partition_where_it_was_first_seen():
    log = filled([1.0] * 6)
    for step in range(6):
        put(log, "p1", 100 + step, -1.0, partition=B)
    pipeline, sink = await run(log, pace=Pace(max_records=100, checkpoint_records=7, poll_timeout_s=0.01))
    assert pipeline.tally.dead_letters["asset_moved"] == 6
    assert len({dict(letter.headers)["dl_partition"] for letter in sink.of(DEAD_LETTERS)}) == 1


async def test_assets_beyond_the_limit_are_set_aside_and_counted():
    log = filled([1.0] * 4)
    put(log, "p2", 104, 1.0)
    pipeline, _ = await run(log, group=watched(max_assets=1))
    assert dict(pipeline.tally.dead_letters) == {"too_many_assets": 1}


async def test_silence_gives_one_gap_and_no_previous_state_across_it():
    log = filled([1.0] * 8)
    for step in range(8):
        put(log, "p1", 300 + step, 1.0)
    _, sink = await run(log)
    assert [event["type"] for event in data_of(sink)] == ["state", "gap", "state"]
    assert states_of(sink) == [(None, "high"), (None, "high")]


async def test_a_channel_that_drops_out_is_named_when_it_goes_and_when_it_comes_back():
    _, sink = await run(filled([1.0] * 8 + [None] * 6 + [1.0] * 8))
    technical = [(event["type"], event["channel"]) for event in data_of(sink) if event["kind"] == "technical"]
    assert technical == [("channel_dropout", "flow"), ("channel_back", "flow")]


async def test_what_is_committed_is_the_next_offset_with_the_rebuild_offset():
    log = filled([1.0] * 30)
    await run(log)
    position = log.commits.get(A)
    assert position.offset == 30
    assert 0 <= int(position.metadata.removeprefix("rebuild=")) <= 30 - 4


async def test_a_restart_goes_on_and_says_nothing_twice():
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
async def test_lost_windows_are_rebuilt_from_the_log_without_repeating_events(loss):
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


async def test_a_crash_in_the_middle_of_a_rebuild_takes_no_published_event_back():
    """Until a rebuild has come to where the log was committed, its windows are incomplete."""
    flows = [1.0 if step % 7 < 4 else -1.0 for step in range(120)]
    log, store, sink = filled(flows), MemoryWindowStore(), MemorySink()
    every = {"group": watched(policy="all")}
    await run(log, sink=sink, store=store, **every)
    committed = log.commits.get(A)
    store.flush()
    rebuilding = pipeline_on(log, sink, store, bounded=False, **every)
    await started(rebuilding)
    while rebuilding._ownership.partitions[A].position < committed.offset - 4:
        await rebuilding.step()
        await rebuilding._checkpoint(list(rebuilding._ownership.partitions.values()))
        assert log.commits.get(A).offset == committed.offset
    store.flush()
    put(log, "p1", 220, 1.0)
    await rebuilding.step()
    await rebuilding._checkpoint(list(rebuilding._ownership.partitions.values()))
    assert log.commits.get(A).offset >= committed.offset
    await rebuilding._close()
    for step in range(121, 140):
        put(log, "p1", 100 + step, 1.0)
    await run(log, sink=sink, store=store, **every)
    undisturbed = await run(filled([*flows, *[1.0] * 20]), **every)
    assert events_of(sink) == events_of(undisturbed[1])


async def test_lost_history_is_still_known_as_lost_after_a_restart():
    log, store, sink = filled([1.0] * 30), MemoryWindowStore(), MemorySink()
    every = {"group": watched(policy="all")}
    await run(log, sink=sink, store=store, **every)
    store.flush()
    log.discard_before(A, 29)
    put(log, "p1", 130, 1.0)
    await run(log, sink=sink, store=store, **every)
    for step in range(31, 40):
        put(log, "p1", 100 + step, 1.0)
    after = MemorySink()
    await run(log, sink=after, store=store, **every)
    reasons = [event["abstention"] for event in data_of(after) if event["type"] == "state"]
    assert reasons[0] == "history_lost"
    assert reasons[-1] is None


async def test_history_that_is_gone_from_the_log_too_gives_unknown_with_the_reason():
    log, store, sink = filled([1.0] * 30), MemoryWindowStore(), MemorySink()
    await run(log, sink=sink, store=store)
    store.flush()
    log.discard_before(A, 29)
    for step in range(30, 40):
        put(log, "p1", 100 + step, 1.0)
    await run(log, sink=sink, store=store, group=watched(policy="all"))
    reasons = [event["abstention"] for event in data_of(sink) if event["type"] == "state"]
    assert "history_lost" in reasons
    assert reasons[-1] is None


async def test_a_sink_that_fails_for_good_commits_nothing():
    class Broken(MemorySink):
        async def write(self, messages):
            raise ConnectorError("the other side is gone")

    log = filled([1.0] * 20)
    with pytest.raises(ConnectorError, match="gone"):
        await run(log, sink=Broken())
    assert log.commits.get(A) == Position(0, "rebuild=0")


async def test_a_second_owner_stops_the_first_before_it_publishes():
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


async def test_a_store_that_is_away_for_a_moment_is_waited_for_when_a_partition_is_taken():
    class Late(MemoryWindowStore):
        refusals = 2

        async def claim(self, partition):
            self.refusals -= 1
            if self.refusals >= 0:
                raise TransientError("no answer")
            return await super().claim(partition)

    _, sink = await run(filled([1.0] * 10), store=Late())
    assert states_of(sink) == [(None, "high")]


async def test_without_the_store_publishing_goes_on_and_commits_wait():
    class Down(MemoryWindowStore):
        down = False

        async def verify(self, claim):
            if self.down:
                raise TransientError("no answer")
            await super().verify(claim)

        async def save(self, claim, layout, checkpoint):
            if self.down:
                raise TransientError("no answer")
            return await super().save(claim, layout, checkpoint)

    store, sink, log = Down(), MemorySink(), filled([1.0] * 20)
    pipeline = pipeline_on(log, sink, store)
    store.down = True
    await pipeline.run(asyncio.Event())
    assert sink.of(EVENTS)
    assert log.commits.get(A) == Position(0, "rebuild=0")


async def test_a_store_that_answers_but_keeps_nothing_is_down_all_the_same():
    class Full(MemoryWindowStore):
        full = True

        async def save(self, claim, layout, checkpoint):
            if self.full:
                raise TransientError("the server's memory is full")
            return await super().save(claim, layout, checkpoint)

    now, store, log = 0.0, Full(), filled([1.0] * 20)
    pace = Pace(max_records=4, checkpoint_records=4, poll_timeout_s=0.01, endurance=Endurance(60.0, 300.0))
    every = watched(policy="all")  # so that the store is asked before each batch
    pipeline = pipeline_on(log, MemorySink(), store, bounded=False, pace=pace, group=every, clock=lambda: now)
    await started(pipeline)
    for now in (0.0, 30.0, 59.0, 61.0, 62.0):  # noqa: B007  # the pipeline's clock
        await pipeline.step()
    assert pipeline.vitals.waiting_for_store
    store.full = False
    now = 70.0
    for _ in range(6):
        await pipeline.step()
    assert not pipeline.vitals.waiting_for_store
    assert log.commits.get(A).offset == 20
    store.full = True
    put(log, "p1", 120, 1.0)
    now = 80.0
    await pipeline.step()
    now = 381.0
    with pytest.raises(ConnectorError, match="300 s"):
        await pipeline.step()
    await pipeline._close()


async def test_a_long_judgement_counts_as_progress_before_anything_is_published(monkeypatch):
    """A slow machine with a backlog is not stuck: a watchdog that threw its work away would never let it finish."""
    progressed, before_writing = [], []
    monkeypatch.setattr("agent.vitals.Vitals.progressed", lambda vitals: progressed.append(1))

    class Listening(MemorySink):
        async def write(self, messages):
            before_writing.append(len(progressed))
            await super().write(messages)

    pace = Pace(max_records=5000, poll_timeout_s=0.01)
    await run(filled([1.0] * 100), sink=Listening(), group=watched(policy="all"), pace=pace)
    assert before_writing[0] > 1


async def test_an_asset_that_stops_sending_is_told_once_by_the_wall_clock():
    now = 0.0
    log, sink = filled([1.0] * 6), MemorySink()
    pipeline = pipeline_on(log, sink, MemoryWindowStore(), bounded=False, clock=lambda: now)
    await started(pipeline)
    for _ in range(10):
        await pipeline.step()
    assert not [event for event in data_of(sink) if event["type"] == "no_data"]
    now = 21.0
    for _ in range(3):
        await pipeline.step()
    (silence,) = [event for event in data_of(sink) if event["type"] == "no_data"]
    assert (silence["asset"], silence["last_sample"]) == ("p1", "1970-01-01T00:01:45Z")
    await pipeline._close()


async def test_a_model_that_hangs_does_not_hold_up_the_end_of_the_others():
    hanging, closed = threading.Event(), []

    class Closing(MemorySink):
        async def close(self):
            closed.append("sink")
            raise ConnectorError("the disk is full")

    class Store(MemoryWindowStore):
        async def close(self):
            closed.append("store")

    pace = Pace(poll_timeout_s=0.01, stop_deadline_s=0.1, close_deadline_s=0.1)
    pipeline = pipeline_on(filled([1.0] * 10), Closing(), Store(), pace=pace)
    pipeline._model._worker.submit(hanging.wait)
    with pytest.raises(ConnectorError, match=r"the end took longer than 0\.1 s"):
        await pipeline.run(asyncio.Event())
    assert closed == ["sink", "store"]
    hanging.set()


async def test_a_clock_that_fell_back_is_noticed_once_and_its_samples_touch_no_window():
    log = filled([1.0] * 8, start=1000)
    for step in range(12):
        put(log, "p1", 100 + step, -1.0)
    pipeline, sink = await run(log)
    (back,) = [event for event in data_of(sink) if event["type"] == "clock_back"]
    assert (back["watermark"], back["sample"]) == ("1970-01-01T00:16:47Z", "1970-01-01T00:01:43Z")
    assert pipeline.tally.dead_letters["late"] == 12
    assert states_of(sink) == [(None, "high")]


async def test_a_store_that_forgot_everything_is_claimed_anew_and_written_whole():
    log, sink, store = filled([1.0] * 6), MemorySink(), MemoryWindowStore()
    pipeline = pipeline_on(log, sink, store, bounded=False)
    await started(pipeline)
    for _ in range(6):
        await pipeline.step()
    store.flush()
    for step in range(6, 30):
        put(log, "p1", 100 + step, 1.0 if step < 20 else -1.0)
    for _ in range(20):
        await pipeline.step()
    await pipeline._checkpoint(list(pipeline._ownership.partitions.values()))
    await pipeline._close()
    undisturbed = await run(filled([1.0] * 20 + [-1.0] * 10))
    assert events_of(sink) == events_of(undisturbed[1])
    await run(log, sink=sink, store=store)
    assert events_of(sink) == events_of(undisturbed[1])


async def test_a_reset_in_the_log_lets_an_asset_begin_anew_and_a_replay_hears_it():
    def with_reset():
        log = filled([1.0] * 8, start=1000)
        put(log, "p1", 100, -1.0)
        log.append(A, b"", key=b"p1", timestamp_ms=1, headers=[("anchormoe_reset", b"clock was ahead")])
        for step in range(8):
            put(log, "p1", 100 + step, -1.0)
        return log

    pipeline, sink = await run(with_reset())
    assert states_of(sink) == [(None, "high"), (None, "low")]
    assert dict(pipeline.tally.dead_letters) == {"late": 1}
    _, again = await run(with_reset(), pace=Pace(max_records=100, poll_timeout_s=0.01))
    assert events_of(sink) == events_of(again)


async def test_a_reset_asset_survives_a_restart():
    log, store, sink = filled([1.0] * 8, start=1000), MemoryWindowStore(), MemorySink()
    log.append(A, b"", key=b"p1", timestamp_ms=1, headers=[("anchormoe_reset", b"x")])
    await run(log, store=store, sink=sink)
    for step in range(8):
        put(log, "p1", 100 + step, -1.0)
    await run(log, store=store, sink=sink)
    assert states_of(sink) == [(None, "high"), (None, "low")]


async def started(pipeline):
    await pipeline._sink.start()
    await pipeline._store.start()
    await pipeline._polling.join(pipeline)
