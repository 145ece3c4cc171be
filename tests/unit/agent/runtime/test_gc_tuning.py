"""The garbage collector is calmed for as long as a stream runs, and no longer."""

import gc

import pytest

from agent.runtime.gc_tuning import gc_tuning


def test_the_collector_is_left_as_it_was_found():
    before = gc.get_threshold()
    with gc_tuning():
        assert gc.get_threshold()[0] > before[0]
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_the_collector_is_left_as_it_was_found_after_a_failure():
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="on purpose"), gc_tuning():
        raise ValueError("on purpose")
    assert gc.get_threshold() == before
