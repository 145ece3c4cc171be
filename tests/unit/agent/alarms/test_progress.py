"""Whether a worker gets on: holes in the input log, standing still, and rows that come late."""

import orjson

from agent.alarms.worker.progress import Patience, Sequence
from agent.alarms.worker.recovery import is_older


def test_inputs_in_order_leave_no_hole() -> None:
    sequence = Sequence()
    sequence.begin({"p0": 7})
    assert not sequence.hole("p0", 7)
    sequence.taken("p0", 7)
    assert not sequence.hole("p0", 8)


def test_a_skipped_input_is_a_hole() -> None:
    sequence = Sequence()
    sequence.begin({"p0": 7})
    assert sequence.hole("p0", 10) == range(7, 10)


def test_inputs_that_come_again_are_no_hole_and_do_not_turn_the_sequence_back() -> None:
    sequence = Sequence()
    sequence.begin({"p0": 7})
    sequence.taken("p0", 9)
    assert not sequence.hole("p0", 8)
    sequence.taken("p0", 8)
    assert sequence.next == {"p0": 10}


def test_from_a_partition_that_was_not_recovered_everything_is_a_hole() -> None:
    assert 0 in Sequence().hole("p1", 1)


def test_patience_ends_when_there_is_something_to_do_and_nothing_changes() -> None:
    patience = Patience(limit_s=60)
    assert not patience.look(100, (5, 0), busy=True)
    assert not patience.look(160, (5, 0), busy=True)
    assert patience.look(161, (5, 0), busy=True)
    assert patience.stuck_for_s == 61


def test_progress_and_having_nothing_to_do_renew_the_patience() -> None:
    patience = Patience(limit_s=60)
    patience.look(100, (5, 0), busy=True)
    assert not patience.look(170, (6, 0), busy=True)
    assert not patience.look(240, (6, 0), busy=False)
    assert not patience.look(290, (6, 0), busy=True)


def test_of_two_rows_that_of_the_earlier_input_is_older() -> None:
    early, late = orjson.dumps({"offset": 4}), orjson.dumps({"offset": 5})
    assert is_older(early, late)
    assert not is_older(late, early)
    assert not is_older(early, early)
    assert not is_older(early, None)
    assert not is_older(None, late)
