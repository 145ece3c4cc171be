"""Faults that are injected into every stage: the culprit becomes a dead letter, the partition goes on."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import orjson
import pytest
from structlog.testing import capture_logs

from agent.errors import BreakerTripped
from agent.events import assemble
from agent.runtime import ingestion, publisher
from agent.runtime.breaker import BreakerLimits
from agent.runtime.pipeline import PipelineLimits
from agent.windows.assigner import AssignedWindows, Samples, assign_windows
from agent.windows.group import GroupWindows
from agent.windows.ring_buffers import RingBuffers
from connectors.decoding import Decoder
from connectors.memory import MemoryLog, MemorySink, MemoryWindowStore
from connectors.records import DEAD_LETTERS, STATES, Batch
from tests.support.plant import A, ThresholdModel, data_of, events_of, filled, pipeline_on, pumps, put, run

POISON = 666.0
"""A value for which the injected fault raises."""
BIG = PipelineLimits(max_records=100, checkpoint_records=7, poll_timeout_s=0.01)


class Bug(Exception):
    """A fault of ours."""


def a_log(*, poison: bool, asset: str = "p2") -> MemoryLog:
    """Two assets, and in the middle one record that a fault can be tied to."""
    log = MemoryLog([A])
    for step in range(24):
        put(log, "p1", 100 + step, 1.0 if step < 12 else -1.0)
        if step == 13 and poison:
            put(log, asset, 100 + step, POISON)
        put(log, "p2", 100 + step, -1.0)
    return log


def same_but_for_offsets(sink: MemorySink) -> list[dict[str, Any]]:
    """The events without `input`: the poison record itself moves the offsets."""
    return [{name: value for name, value in event.items() if name != "input"} for event in data_of(sink)]


def letters(sink: MemorySink) -> list[tuple[str, str, str]]:
    heads = [{name: text.decode() for name, text in letter.headers} for letter in sink.of(DEAD_LETTERS)]
    return [(head["dl_reason"], head["dl_exception"], head["dl_offset"]) for head in heads]


def fail_in_decoding(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    original = Decoder.decode

    def decode(self: Decoder, batch: Batch, births: Any = None) -> Any:
        if any(b"666" in (record.value or b"") for record in batch.records):
            raise error
        return original(self, batch, births)

    monkeypatch.setattr(Decoder, "decode", decode)


def fail_in_windowing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """After the change: the ring buffers have advanced and hold the samples of all assets of the batch."""

    def assign(rings: RingBuffers, samples: Samples, **options: Any) -> AssignedWindows:
        assigned = assign_windows(rings, samples, **options)
        if (samples.values == POISON).any():
            raise error
        return assigned

    monkeypatch.setattr("agent.windows.ingest.assign_windows", assign)


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[Any]]:
    """What was logged; tracebacks are not rendered, which takes long."""
    with capture_logs() as entries:
        yield entries


@pytest.mark.parametrize("fail", [fail_in_decoding, fail_in_windowing])
@pytest.mark.parametrize(
    "error", [Bug("odd"), MemoryError(), RecursionError("deep"), UnicodeDecodeError("x", b"", 0, 1, "")]
)
@pytest.mark.parametrize("asset", ["p2", "new"])
async def test_a_record_that_raises_is_as_if_it_had_not_been_sent(
    fail: Callable[[pytest.MonkeyPatch, Exception], None],
    error: Exception,
    asset: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, plain = await run(a_log(poison=False), group=pumps(policy="all"), limits=BIG)
    fail(monkeypatch, error)
    pipeline, sink = await run(a_log(poison=True, asset=asset), group=pumps(policy="all"), limits=BIG)
    assert letters(sink) == [("internal", type(error).__name__, "27")]
    assert same_but_for_offsets(sink) == same_but_for_offsets(plain)
    assert sum(pipeline.counters.internal_errors.values()) == 1
    assert pipeline.counters.records == 49


async def test_a_fault_is_logged_once_per_cause_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, logs: list[Any]
) -> None:
    log = a_log(poison=True)
    for step in range(3):
        put(log, "p2", 130 + step, POISON)
        put(log, "p2", 130 + step, 1.0)
    fail_in_windowing(monkeypatch, Bug("odd"))
    pipeline, _ = await run(log, limits=BIG)
    told = [entry for entry in logs if "internal error" in entry["event"]]
    assert [(entry["stage"], entry["place"]) for entry in told] == [("ingest", "readings[0]@27")]
    assert isinstance(told[0]["exc_info"], Bug)
    assert pipeline.counters.internal_errors == {"ingest": 4}


async def test_a_reset_that_raises_is_dead_lettered(monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled([1.0] * 8)
    log.append(A, b"", key=b"p1", timestamp_ms=1, headers=[("anchormoe_reset", b"x")])
    put(log, "p1", 108, 1.0)

    def clear_samples(self: GroupWindows, asset: str) -> bool:
        self.rings.clear(0)
        raise Bug

    monkeypatch.setattr(GroupWindows, "clear_samples", clear_samples)
    _, sink = await run(log, group=pumps(policy="all"))
    assert letters(sink) == [("internal", "Bug", "8")]
    _, plain = await run(filled([1.0] * 9), group=pumps(policy="all"))
    assert same_but_for_offsets(sink) == same_but_for_offsets(plain)


async def test_the_window_that_the_model_cannot_take_is_unknown_and_its_neighbours_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = ThresholdModel.predict

    def predict(self: ThresholdModel, windows: np.ndarray, mask: np.ndarray) -> Any:
        if (windows == POISON).any():
            raise Bug("no such number")
        return original(self, windows, mask)

    monkeypatch.setattr(ThresholdModel, "predict", predict)
    log = filled([1.0] * 12 + [POISON] + [1.0] * 12)
    pipeline, sink = await run(log, group=pumps(policy="all"), limits=BIG)
    states = [(event["state"], event["abstention"]) for event in data_of(sink)]
    assert states.count(("unknown", "internal")) == 2
    assert set(states) == {("high", None), ("unknown", "internal")}
    assert states[-1] == ("high", None)
    assert [reason for reason, _, _ in letters(sink)] == ["internal"] * 2
    assert pipeline.counters.internal_errors == {"classify": 2}
    # However the log is cut: the same events.
    one = PipelineLimits(max_records=1, checkpoint_records=1, poll_timeout_s=0.01)
    _, again = await run(filled([1.0] * 12 + [POISON] + [1.0] * 12), group=pumps(policy="all"), limits=one)
    assert events_of(again) == events_of(sink)


async def test_an_event_that_cannot_be_built_is_unknown_with_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    original: Any = vars(assemble)["explain"]

    def explain(prediction: Any, at: int, **facts: Any) -> Any:
        if (prediction.contributions[at] == POISON).any():
            raise Bug("no words")
        return original(prediction, at, **facts)

    monkeypatch.setattr(assemble, "explain", explain)
    pipeline, sink = await run(filled([1.0] * 6 + [POISON] + [1.0] * 8), group=pumps(policy="all"), limits=BIG)
    unknown = [event for event in data_of(sink) if event["abstention"] == "internal"]
    assert len(unknown) == 2
    assert unknown[0]["evidence"] is None
    assert [reason for reason, _, _ in letters(sink)] == ["internal"] * 2
    assert pipeline.counters.internal_errors == {"events": 2}
    assert data_of(sink, STATES)[-1]["state"] == "high"


async def test_an_event_that_cannot_be_encoded_becomes_a_dead_letter_and_the_others_go_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original: Any = vars(publisher)["event_message"]

    def event_message(event: Any, namespace: str) -> Any:
        if event.offset == 5:
            raise Bug("lone surrogate")
        return original(event, namespace)

    monkeypatch.setattr(publisher, "event_message", event_message)
    pipeline, sink = await run(filled([1.0] * 12), group=pumps(policy="all"), limits=BIG)
    assert letters(sink) == [("internal", "Bug", "5")]
    assert [event["input"]["offset"] for event in data_of(sink)] == [3, 7, 9, 11]
    assert pipeline.counters.events["state"] == 4


async def test_a_live_view_that_raises_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def show(self: publisher.Publisher, *_: object) -> None:
        raise Bug

    monkeypatch.setattr(publisher.Publisher, "_show", show)
    pipeline, sink = await run(filled([1.0] * 12))
    assert len(events_of(sink)) == 1
    assert pipeline.counters.internal_errors["publish"] > 0


async def test_a_fault_that_touches_every_record_stops_the_agent_and_commits_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, sink = filled([1.0] * 300), MemorySink()

    def broken(*_: object, **__: object) -> None:
        raise Bug("a library changed")

    monkeypatch.setattr(ingestion, "ingest", broken)
    limits = PipelineLimits(max_records=3, checkpoint_records=1, checkpoint_every_s=0.0, poll_timeout_s=0.01)
    with pytest.raises(
        BreakerTripped, match=r"100 of the last 200 records raised .* Bug: 'a library changed' in ingest"
    ):
        await run(log, sink=sink, limits=limits)
    committed = log.commits.get(A)
    assert committed is not None
    assert committed.offset <= 12
    assert len(sink.of(DEAD_LETTERS)) < 100


async def test_a_model_that_always_raises_trips_the_breaker_although_few_records_make_a_window_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def predict(self: ThresholdModel, *_: object) -> None:
        raise Bug("no device")

    monkeypatch.setattr(ThresholdModel, "predict", predict)
    log = filled([1.0] * 100)
    limits = PipelineLimits(max_records=5, poll_timeout_s=0.01, breaker=BreakerLimits(20, 0.5))
    with pytest.raises(BreakerTripped, match=r"10 of the last 20 windows raised .* in classify"):
        await run(log, limits=limits)
    committed = log.commits.get(A)
    assert committed is None or committed.offset < 20


async def test_a_silence_that_cannot_be_told_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def idle_events(*_: object, **__: object) -> None:
        raise Bug

    monkeypatch.setattr("agent.runtime.announcer.idle_events", idle_events)
    pipeline = pipeline_on(filled([1.0] * 8), MemorySink(), MemoryWindowStore(), bounded=False)
    await pipeline.start()
    while not pipeline.counters.internal_errors["announce"]:
        await pipeline.step()
    await pipeline.close()
    assert pipeline.counters.records == 8


async def test_a_cancelled_run_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(ingestion, "ingest", broken)
    with pytest.raises(asyncio.CancelledError):
        await run(filled([1.0] * 5))


async def test_a_record_that_raises_while_windows_are_rebuilt_is_dead_lettered_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail_in_windowing(monkeypatch, Bug("odd"))
    log, sink = a_log(poison=True), MemorySink()
    await run(log, sink=sink, group=pumps(policy="all"))
    before = events_of(sink)
    put(log, "p1", 124, -1.0)
    await run(log, sink=sink, store=MemoryWindowStore(), group=pumps(policy="all"))
    assert letters(sink) == [("internal", "Bug", "27")]
    assert before.items() <= events_of(sink).items()


async def test_large_dead_letters_are_written_in_parts_that_fit_the_sinks_time_limit() -> None:
    class Sizes(MemorySink):
        async def write(self, messages: Any) -> None:
            sizes.append(sum(len(message.value or b"") for message in messages))
            await super().write(messages)

    sizes: list[int] = []
    log, sink = MemoryLog([A]), Sizes()
    for _ in range(30):
        log.append(A, b"x" * 500_000, key=b"p1", timestamp_ms=1)
    await run(log, sink=sink, limits=BIG)
    assert len(sink.of(DEAD_LETTERS)) == 30
    assert max(sizes) <= 5_000_000


def test_orjson_refuses_what_python_allows() -> None:
    """Why encoding an event is behind the door as well."""
    with pytest.raises(TypeError):
        orjson.dumps({"state": "\ud800"})


async def test_a_pipeline_goes_on_after_a_fault_and_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_in_decoding(monkeypatch, Bug())
    log = a_log(poison=True)
    pipeline = pipeline_on(log, MemorySink(), MemoryWindowStore())
    await pipeline.run(asyncio.Event())
    committed = log.commits.get(A)
    assert committed is not None
    assert committed.offset == 49
