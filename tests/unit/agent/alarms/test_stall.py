"""Progress of a worker: skipped inputs, stalls, rows of earlier inputs."""

from collections.abc import Hashable

import orjson

from agent.alarms.worker.recovery import is_older
from agent.alarms.worker.stall import ExpectedOffsets, StallTimer


def expected(**offsets: int) -> ExpectedOffsets:
    begun = ExpectedOffsets()
    begun.begin(dict[Hashable, int](offsets.items()))
    return begun


def test_inputs_in_order_leave_nothing_missing() -> None:
    offsets = expected(p0=7)
    assert not offsets.missing_before("p0", 7)
    offsets.advance("p0", 7)
    assert not offsets.missing_before("p0", 8)


def test_skipped_inputs_are_missing() -> None:
    assert expected(p0=7).missing_before("p0", 10) == range(7, 10)


def test_repeated_inputs_are_not_missing_and_do_not_move_the_offset_back() -> None:
    offsets = expected(p0=7)
    offsets.advance("p0", 9)
    assert not offsets.missing_before("p0", 8)
    offsets.advance("p0", 8)
    assert offsets.next == {"p0": 10}


def test_in_a_partition_that_was_not_recovered_everything_is_missing() -> None:
    assert 0 in ExpectedOffsets().missing_before("p1", 1)


def test_the_timer_runs_out_when_there_is_work_and_no_progress() -> None:
    timer = StallTimer(limit_s=60)
    assert not timer.check(100, (5, 0), busy=True)
    assert not timer.check(160, (5, 0), busy=True)
    assert timer.check(161, (5, 0), busy=True)
    assert timer.stalled_for_s == 61


def test_progress_or_having_no_work_restarts_the_timer() -> None:
    timer = StallTimer(limit_s=60)
    timer.check(100, (5, 0), busy=True)
    assert not timer.check(170, (6, 0), busy=True)
    assert not timer.check(240, (6, 0), busy=False)
    assert not timer.check(290, (6, 0), busy=True)


def test_of_two_rows_that_of_the_earlier_input_is_older() -> None:
    early, late = orjson.dumps({"offset": 4}), orjson.dumps({"offset": 5})
    assert is_older(early, late)
    assert not is_older(late, early)
    assert not is_older(early, early)
    assert not is_older(early, None)
    assert not is_older(None, late)
