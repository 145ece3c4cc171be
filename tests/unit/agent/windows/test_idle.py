"""Idle assets by the wall clock."""

import numpy as np

from agent.windows.idle import IdleDetector


def test_an_asset_is_reported_once_per_silence() -> None:
    idle = IdleDetector()
    idle.record(np.array([0, 2]), now_s=10.0)
    assert idle.newly_idle(14.0, idle_after_s=5.0) == []
    idle.record(np.array([2]), now_s=14.0)
    assert idle.newly_idle(15.0, idle_after_s=5.0) == [0]
    assert idle.newly_idle(16.0, idle_after_s=5.0) == []
    idle.record(np.array([0]), now_s=17.0)
    assert idle.newly_idle(22.0, idle_after_s=5.0) == [0, 2]


def test_a_row_without_a_sample_is_not_idle() -> None:
    idle = IdleDetector()
    idle.record(np.array([3]), now_s=0.0)
    assert idle.newly_idle(100.0, idle_after_s=5.0) == [3]


def test_restored_assets_count_as_seen_when_their_partition_is_taken() -> None:
    idle = IdleDetector()
    idle.record(np.array([1]), now_s=1.0)
    idle.start_tracking(range(3), now_s=10.0)
    assert idle.newly_idle(11.0, idle_after_s=5.0) == [1]
    assert idle.newly_idle(15.0, idle_after_s=5.0) == [0, 2]
