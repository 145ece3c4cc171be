"""Silence by the wall clock, and the rows of assets by number."""

import numpy as np

from agent.windows.idle import IdleDetector
from agent.windows.row_index import UNSEEN, RowIndex


def test_an_asset_is_told_once_per_silence():
    silence = IdleDetector()
    silence.heard(np.array([0, 2]), now=10.0)
    assert silence.fell_silent(14.0, idle_s=5.0) == []
    silence.heard(np.array([2]), now=14.0)
    assert silence.fell_silent(15.0, idle_s=5.0) == [0]
    assert silence.fell_silent(16.0, idle_s=5.0) == []
    silence.heard(np.array([0]), now=17.0)
    assert silence.fell_silent(22.0, idle_s=5.0) == [0, 2]


def test_a_row_without_a_sample_is_not_silent():
    silence = IdleDetector()
    silence.heard(np.array([3]), now=0.0)
    assert silence.fell_silent(100.0, idle_s=5.0) == [3]


def test_restored_assets_count_as_heard_when_they_are_taken():
    silence = IdleDetector()
    silence.heard(np.array([1]), now=1.0)
    silence.listen_to(range(3), now=10.0)
    assert silence.fell_silent(11.0, idle_s=5.0) == [1]
    assert silence.fell_silent(15.0, idle_s=5.0) == [0, 2]


def test_a_row_is_remembered_by_number_as_long_as_the_names_are_the_same():
    known, names = RowIndex(), ["a", "b"]
    assert known.of(names, np.array([1, 0])).tolist() == [UNSEEN, UNSEEN]
    known.note(1, 7)
    names.append("c")
    assert known.of(names, np.array([2, 1])).tolist() == [UNSEEN, 7]
    assert known.of(["b"], np.array([0])).tolist() == [UNSEEN]
