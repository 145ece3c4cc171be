"""Cancellation, with sums that can be done in the head."""

from dataclasses import replace

import numpy as np
import pytest

from anchormoe.metrics.cancellation import (
    CancellationSummary,
    cancellation,
    context_share,
    describe_cancellation,
    summarize_cancellation,
    surely_keeps_bounds,
)
from anchormoe.predictor import Predictor
from tests.support.linear_source import linear_model, windows

PREDICTOR = Predictor(*linear_model())


def test_parts_of_one_sign_do_not_cancel() -> None:
    parts = np.array([[1.0, 2.0], [-3.0, -1.0]])
    assert cancellation(parts, np.array([1.0, 0.0]), np.array([4.0, -4.0])).tolist() == [1.0, 1.0]


def test_parts_that_oppose_each_other_count_with_their_size() -> None:
    # 48 − 24 + context −20 = 4; the sizes are 48 + 24 + 20 = 92.
    assert cancellation(np.array([[48.0, -24.0]]), np.array([-20.0]), np.array([4.0])).tolist() == [23.0]


def test_the_finer_the_units_the_more_can_cancel() -> None:
    by_channel = np.array([[[3.0, -1.0], [2.0, 0.0]]])  # (B, P, K)
    context, logit = np.zeros(1), np.array([4.0])
    assert cancellation(by_channel.sum(axis=2), context, logit).tolist() == [1.0]
    assert cancellation(by_channel, context, logit).tolist() == [1.5]


def test_a_score_of_zero_is_complete_cancellation_unless_all_parts_are_zero() -> None:
    assert cancellation(np.array([[1.0, -1.0], [0.0, 0.0]]), np.zeros(2), np.zeros(2)).tolist() == [np.inf, 1.0]
    assert context_share(np.array([0.0, 1.0]), np.zeros(2)).tolist() == [0.0, np.inf]


def test_the_share_of_the_context_ignores_signs() -> None:
    assert context_share(np.array([-1.0, 2.0]), np.array([4.0, -2.0])).tolist() == [0.25, 1.0]


def test_the_summary_is_of_the_predicted_class() -> None:
    x, mask = windows(20)
    found = PREDICTOR.predict(x, mask)
    row, label = 7, int(found.label[7])
    parts, context = found.contributions[row, :, label], found.context[row, label]
    expected = (abs(parts).sum() + abs(context)) / abs(found.logits[row, label])
    one = summarize_cancellation(PREDICTOR.predict(x[[row]], mask[[row]]))
    assert one.median == one.p90 == pytest.approx(expected)
    by_channel = found.evidence[row, :, :, label]
    finer = (abs(by_channel).sum() + abs(context)) / abs(found.logits[row, label])
    assert one.channel_median == one.channel_p90 == pytest.approx(finer)
    assert finer > expected
    assert one.context_share == pytest.approx(abs(context) / abs(found.logits[row, label]))
    assert summarize_cancellation(found).cases == 20


def test_an_infinite_figure_is_none_and_keeps_no_bound() -> None:
    x, mask = windows(2)
    found = PREDICTOR.predict(x, mask)
    nothing = replace(found, logits=np.zeros_like(found.logits))
    summary = summarize_cancellation(nothing)
    assert summary.median is None
    assert not summary.bounds_kept
    assert "median infinite" in describe_cancellation(summary.to_dict())


@pytest.mark.parametrize(("median", "p90", "kept"), [(1.5, 3.0, True), (1.51, 2.0, False), (1.0, 3.1, False)])
def test_the_bounds_are_on_the_median_and_on_the_ninth_decile(median: float, p90: float, kept: bool) -> None:
    summary = CancellationSummary(median, p90, channel_median=9.0, channel_p90=9.0, context_share=0.5, cases=1)
    assert summary.bounds_kept is kept
    assert ("kept" if kept else "EXCEEDED") in describe_cancellation(summary.to_dict())


def test_a_sample_keeps_the_bounds_with_a_standard_error_of_its_ranks_to_spare() -> None:
    # Of 100 cases the ranks are about 55 and 93 instead of 50 and 90.
    values = np.concatenate((np.ones(57), np.full(37, 3.0), np.full(6, 9.0)))
    assert surely_keeps_bounds(values)
    assert not surely_keeps_bounds(np.concatenate((np.ones(53), np.full(41, 3.0), np.full(6, 9.0))))
    assert not surely_keeps_bounds(np.concatenate((np.ones(57), np.full(34, 3.0), np.full(9, 9.0))))
    assert not surely_keeps_bounds(np.concatenate((np.ones(34), [np.inf, np.inf])))  # p90 is the second largest of 36
