"""No ranking removes the score of an additive model faster than its own evidence does."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anchormoe.cases import Cases, Int64
from anchormoe.metrics.gap import Removed, measure_gap

STEPS = 10


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_the_true_evidence_reaches_the_best_gap_of_any_ranking(seed: int, other: int) -> None:
    """Two classes, every step adds its value, and a missing step adds nothing: the evidence is the truth."""
    # Multiples of 1/64 have exact sums in float32, in any order.
    x = np.rint(np.random.default_rng(seed).normal(size=(6, 1, STEPS)) * 64).astype(np.float32) / 64
    cases = Cases.from_arrays(x)

    def label(some: Cases) -> Int64:
        return np.asarray(some.x.sum(axis=(1, 2)) > 0, np.int64)

    y = label(cases)
    truth = np.asarray(x[:, 0] * np.where(y == 1, 1.0, -1.0)[:, None], np.float64)
    removed = Removed(cases, y, np.zeros(1), "missing")
    best = measure_gap(label, removed, truth)
    rival = measure_gap(label, removed, np.random.default_rng(other).normal(size=truth.shape))
    assert all(ours >= theirs for ours, theirs in zip(best.least, rival.least, strict=True))
    assert all(ours <= theirs for ours, theirs in zip(best.most, rival.most, strict=True))
    assert best.value >= rival.value
