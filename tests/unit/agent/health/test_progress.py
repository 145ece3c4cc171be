"""When work counts as stuck, with a clock that is moved by hand."""

from agent.health.progress import Progress
from connectors.records import Partition

A, B = Partition("t", 0), Partition("t", 1)


class HandClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_lag_without_progress_is_stuck_time() -> None:
    clock = HandClock()
    progress = Progress(clock)
    clock.now += 7
    progress.lag_measured({A: 3})
    assert progress.stuck_for_s == 7
    progress.advanced()
    assert progress.stuck_for_s == 0


def test_nothing_to_read_is_as_good_as_progress() -> None:
    clock = HandClock()
    progress = Progress(clock)
    clock.now += 7
    progress.lag_measured({A: 0, B: 0})
    assert progress.stuck_for_s == 0


def test_a_batch_that_is_never_published_is_stuck_although_everything_is_read() -> None:
    clock = HandClock()
    progress = Progress(clock)
    progress.queued(batches=1, windows=3)
    clock.now += 7
    progress.lag_measured({A: 0})
    assert progress.stuck_for_s == 7


def test_one_lagging_partition_is_enough_to_be_behind() -> None:
    clock = HandClock()
    progress = Progress(clock)
    clock.now += 7
    progress.lag_measured({A: 0, B: 1})
    assert progress.stuck_for_s == 7


def test_an_unknown_lag_does_not_count_as_caught_up() -> None:
    clock = HandClock()
    progress = Progress(clock)
    clock.now += 7
    progress.lag_measured(None)
    assert progress.stuck_for_s == 7


def test_waiting_for_the_store_on_purpose_is_not_being_stuck() -> None:
    clock = HandClock()
    progress = Progress(clock, waiting_for_store=True)
    clock.now += 7
    progress.lag_measured({A: 3})
    assert progress.stuck_for_s == 0
