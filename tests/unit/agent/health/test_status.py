"""What the vitals say, with a clock that is moved by hand."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.health.status import Histogram, RollingMax, RuntimeStatus
from agent.runtime.measured_store import MeasuredStore
from connectors.base import Checkpoint, Claim, Fenced, RingWrite
from connectors.errors import TransientError
from connectors.memory import MemoryWindowStore
from connectors.records import Partition

A, B = Partition("t", 0), Partition("t", 1)


class HandClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_value_on_a_bound_belongs_to_it() -> None:
    values = Histogram((1.0, 10.0))
    for value in (0.5, 1.0, 1.5, 10.0, 11.0):
        values.observe(value)
    assert values.counts == [2, 2, 1]
    assert values.total == 24.0


@given(st.lists(st.floats(0, 100), max_size=50))
def test_every_observed_value_is_counted_once(observed: list[float]) -> None:
    values = Histogram((1.0, 10.0))
    for value in observed:
        values.observe(value)
    assert sum(values.counts) == len(observed)
    assert values.counts[2] == sum(value > 10 for value in observed)


def test_a_peak_is_seen_for_a_period_and_fades_after_two() -> None:
    peak = RollingMax()
    peak.observe(3.0, now=10.0)
    peak.observe(1.0, now=11.0)
    assert peak.value(59.0) == 3.0
    assert peak.value(119.0) == 3.0
    assert peak.value(120.0) == 0.0


def test_a_long_silence_clears_a_peak_at_once() -> None:
    peak = RollingMax()
    peak.observe(3.0, now=10.0)
    assert peak.value(1000.0) == 0.0


def test_lag_without_progress_is_stuck_time() -> None:
    clock = HandClock()
    vitals = RuntimeStatus(clock)
    clock.now += 7
    vitals.lag_measured({A: 3})
    assert vitals.stuck_for_s == 7
    vitals.progressed()
    assert vitals.stuck_for_s == 0


def test_nothing_to_read_is_as_good_as_progress() -> None:
    clock = HandClock()
    vitals = RuntimeStatus(clock)
    clock.now += 7
    vitals.lag_measured({A: 0, B: 0})
    assert vitals.stuck_for_s == 0


def test_a_batch_that_is_never_published_is_stuck_although_everything_is_read() -> None:
    clock = HandClock()
    vitals = RuntimeStatus(clock)
    vitals.queued(batches=1, windows=3)
    clock.now += 7
    vitals.lag_measured({A: 0})
    assert vitals.stuck_for_s == 7


def test_one_lagging_partition_is_enough_to_be_behind() -> None:
    clock = HandClock()
    vitals = RuntimeStatus(clock)
    clock.now += 7
    vitals.lag_measured({A: 0, B: 1})
    assert vitals.stuck_for_s == 7


def test_an_unknown_lag_does_not_count_as_caught_up() -> None:
    clock = HandClock()
    vitals = RuntimeStatus(clock)
    clock.now += 7
    vitals.lag_measured(None)
    assert vitals.stuck_for_s == 7


def test_waiting_for_the_store_on_purpose_is_not_being_stuck() -> None:
    clock = HandClock()
    vitals = RuntimeStatus(clock, waiting_for_store=True)
    clock.now += 7
    vitals.lag_measured({A: 3})
    assert vitals.stuck_for_s == 0


def test_a_partition_that_is_taken_anew_begins_without_a_position() -> None:
    vitals = RuntimeStatus(HandClock())
    vitals.holds({A: 1, B: 5})
    vitals.took_in(A, records=2, due=0, position=9, newest_ns=70)
    vitals.took_in(B, records=2, due=0, position=4, newest_ns=None)
    vitals.holds({A: 2, B: 5})
    assert (vitals.holdings[A].epoch, vitals.holdings[A].position) == (2, None)
    assert (vitals.holdings[B].epoch, vitals.holdings[B].position) == (5, 4)
    vitals.holds({B: 5})
    assert set(vitals.holdings) == {B}


def test_the_newest_event_time_never_goes_back() -> None:
    vitals = RuntimeStatus(HandClock())
    vitals.holds({A: 1})
    for newest in (70, 50, None):
        vitals.took_in(A, records=1, due=0, position=1, newest_ns=newest)
    assert vitals.holdings[A].newest_ns == 70


def test_a_stage_that_fails_is_timed_too() -> None:
    clock = HandClock()
    vitals = RuntimeStatus(clock)
    with suppress(ValueError), vitals.stage("decode"):
        clock.now += 2
        raise ValueError
    assert vitals.stages["decode"].total == 2


class UnreachableStore(MemoryWindowStore):
    async def verify(self, claim: Claim) -> None:
        raise TransientError("no answer")


async def test_a_store_that_does_not_answer_is_noted_and_the_error_goes_on() -> None:
    vitals = RuntimeStatus()
    store = MeasuredStore(UnreachableStore(), vitals)
    claim = await store.claim(A)
    assert vitals.store_reachable is True
    with pytest.raises(TransientError):
        await store.verify(claim)
    assert vitals.store_reachable is False


async def test_a_mere_look_at_a_store_raises_nothing() -> None:
    vitals = RuntimeStatus()
    store = MeasuredStore(UnreachableStore(), vitals)
    await store.look(await store.claim(A))
    assert vitals.store_reachable is False


async def test_a_refused_writer_is_counted() -> None:
    vitals = RuntimeStatus()
    store = MeasuredStore(MemoryWindowStore(), vitals)
    old = await store.claim(A)
    await store.claim(A)
    with pytest.raises(Fenced):
        await store.verify(old)
    assert (vitals.rejected_claims, vitals.store_reachable) == (1, True)
    await store.look(old)
    assert vitals.rejected_claims == 1


async def test_the_bytes_of_a_checkpoint_are_its_pieces_and_its_header() -> None:
    vitals = RuntimeStatus()
    store = MeasuredStore(MemoryWindowStore(), vitals)
    write = RingWrite("pump", 4, ((0, b"1234"),))
    assert await store.save(await store.claim(A), "layout", Checkpoint([write], b"head!", ["pump"])) == []
    assert vitals.checkpoint_bytes == 9
