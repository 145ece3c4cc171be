"""Implausible values: whatever comes, nothing raises, a batch changes nothing, and only what was found is masked."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from anchormoe.cases import Cases
from anchormoe.model.judgement import Judge
from anchormoe.model.plausibility import Plausibility

STEPS = 24
_ODD = [-9999.0, 0.0, 1e30, 3.4028235e38, -3.4028235e38, 20.0, 21.0, 19.5, 55.0, 400.0, 20000.0, float("nan")]


@st.composite
def windows(draw: st.DrawFn) -> NDArray[np.float32]:
    """Noise as in TRAIN, with pieces of anything in it."""
    count = draw(st.integers(1, 5))
    x = np.random.default_rng(draw(st.integers(0, 99))).normal(20, 1, (count, 2, STEPS)).astype(np.float32)
    for _ in range(draw(st.integers(0, 6))):
        window, channel = draw(st.integers(0, count - 1)), draw(st.integers(0, 1))
        first, length = draw(st.integers(0, STEPS - 1)), draw(st.integers(1, STEPS))
        piece, slope = draw(st.sampled_from(_ODD)), draw(st.sampled_from([0.0, 0.0, 2.0, -3.0]))
        steps = np.arange(len(x[window, channel, first : first + length]), dtype=np.float64)
        x[window, channel, first : first + length] = np.clip(piece + slope * steps, -3.4e38, 3.4e38)
    return x


def judge() -> Judge:
    train = np.random.default_rng(1).normal(20, 1, (60, 2, STEPS))
    train[:, 1] = np.round(train[:, 1] * 2) / 2
    return Judge.for_windows(Plausibility.fit(Cases.from_arrays(train), np.arange(60) % 2, 2), STEPS)


JUDGE = judge()


@settings(max_examples=200, deadline=None)
@given(windows())
def test_a_window_alone_is_judged_as_in_a_batch(x: NDArray[np.float32]) -> None:
    together = JUDGE.judge(x)
    for at in range(len(x)):
        alone = JUDGE.judge(np.ascontiguousarray(x[at : at + 1]))
        assert alone.findings[0] == together.findings[at]
        assert alone.windows.tobytes() == together.windows[at].tobytes()


@settings(max_examples=200, deadline=None)
@given(windows())
def test_what_the_model_gets_differs_only_where_something_masked_was_found(x: NDArray[np.float32]) -> None:
    judged = JUDGE.judge(x)
    for at, found in enumerate(judged.findings):
        masked = {one.channel for one in found if one.masked}
        for channel in range(2):
            same = judged.windows[at, channel].tobytes() == x[at, channel].tobytes()
            assert same == (channel not in masked)
            assert not judged.unusable[at, channel] or channel in masked
        kinds = [(one.channel, one.kind) for one in found]
        assert len(set(kinds)) == len(kinds)
        assert all(0 <= one.first <= one.last < STEPS and 1 <= one.count <= STEPS for one in found)


@settings(max_examples=100, deadline=None)
@given(windows())
def test_no_code_reaches_the_model(x: NDArray[np.float32]) -> None:
    clean = JUDGE.judge(x).windows
    assert not np.isin(clean, np.array([-9999, 1e30, 3.4028235e38, -3.4028235e38], np.float32)).any()
