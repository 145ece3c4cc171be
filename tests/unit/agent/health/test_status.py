"""What the status reports, with a clock that is moved by hand."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from agent.health.status import Histogram, RollingMax, RuntimeStatus
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


def test_a_maximum_is_seen_for_a_period_and_fades_after_two() -> None:
    rolling = RollingMax()
    rolling.observe(3.0, now_s=10.0)
    rolling.observe(1.0, now_s=11.0)
    assert rolling.value(59.0) == 3.0
    assert rolling.value(119.0) == 3.0
    assert rolling.value(120.0) == 0.0


def test_a_long_pause_clears_a_maximum_at_once() -> None:
    rolling = RollingMax()
    rolling.observe(3.0, now_s=10.0)
    assert rolling.value(1000.0) == 0.0


def test_a_partition_that_is_claimed_again_begins_without_a_position() -> None:
    status = RuntimeStatus(HandClock())
    status.owns({A: 1, B: 5})
    status.ingested(A, records=2, due=0, position=9, newest_ns=70)
    status.ingested(B, records=2, due=0, position=4, newest_ns=None)
    status.owns({A: 2, B: 5})
    assert (status.partitions[A].epoch, status.partitions[A].position) == (2, None)
    assert (status.partitions[B].epoch, status.partitions[B].position) == (5, 4)
    status.owns({B: 5})
    assert set(status.partitions) == {B}


def test_the_newest_event_time_never_goes_back() -> None:
    status = RuntimeStatus(HandClock())
    status.owns({A: 1})
    for newest in (70, 50, None):
        status.ingested(A, records=1, due=0, position=1, newest_ns=newest)
    assert status.partitions[A].newest_ns == 70


def test_a_stage_that_fails_is_timed_too() -> None:
    clock = HandClock()
    status = RuntimeStatus(clock)
    with suppress(ValueError), status.stage("decode"):
        clock.now += 2
        raise ValueError
    assert status.stages["decode"].total == 2
