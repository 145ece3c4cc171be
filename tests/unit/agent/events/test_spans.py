"""Which spans of time and channel an event shows, worked out by hand."""

import math

import numpy as np
import pytest

from agent.events.spans import EvidencePolicy, TermSpan, disjoint, strongest_spans

ALL = EvidencePolicy(share=1.0, max_spans=100)


def spans(*channels: list[float], policy: EvidencePolicy = ALL) -> list[TermSpan]:
    """One list of cells per channel."""
    return strongest_spans(np.array(channels, float).T[None], policy)[0]


def test_neighbours_of_one_sign_and_channel_are_one_span_strongest_first() -> None:
    assert spans([1.0, 2.0, -2.5, 0.0], [0.0, 0.0, 0.0, -4.0]) == [
        TermSpan(1, 3, 4, -4.0),
        TermSpan(0, 0, 2, 3.0),
        TermSpan(0, 2, 3, -2.5),
    ]


def test_a_span_ends_with_its_channel() -> None:
    assert spans([0.0, 1.0], [1.0, 0.0]) == [TermSpan(0, 1, 2, 1.0), TermSpan(1, 0, 1, 1.0)]


def test_evidence_that_is_spread_evenly_is_one_span_whatever_the_share() -> None:
    assert spans([0.5] * 8, policy=EvidencePolicy(share=0.5)) == [TermSpan(0, 0, 8, 4.0)]


def test_what_is_weak_stays_in_the_remainder() -> None:
    assert spans([0.1, 5.0, 0.1, 0.1], policy=EvidencePolicy(share=0.8)) == [TermSpan(0, 1, 2, 5.0)]


def test_a_strong_cell_takes_neighbours_that_are_half_as_strong_along() -> None:
    assert spans([0.1, 1.2, 2.0, 0.2], policy=EvidencePolicy(share=0.5)) == [TermSpan(0, 1, 3, 3.2)]


def test_a_span_far_weaker_than_the_strongest_is_not_shown() -> None:
    assert spans([4.0, 4.0, 4.0, 0.0, 0.9]) == [TermSpan(0, 0, 3, 12.0)]


def test_no_more_than_the_policy_says() -> None:
    found = spans([1.0, -2.0, 3.0, -4.0], policy=EvidencePolicy(share=1.0, max_spans=2))
    assert [span.value for span in found] == [-4.0, 3.0]


def test_ties_are_shown_in_the_order_of_channel_and_time() -> None:
    found = spans([1.0, -1.0], [-1.0, 1.0])
    assert [(span.term, span.first) for span in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_no_evidence_is_no_span_and_what_is_not_finite_is_refused() -> None:
    assert spans([0.0, 0.0]) == []
    with pytest.raises(ValueError, match="not finite"):
        spans([math.nan, 1.0])


def test_of_very_many_channels_the_strongest_are_found() -> None:
    values = np.full((16, 1_400), 1e-3)
    values[3:5, 700] = 2.0
    assert strongest_spans(values[None], EvidencePolicy())[0][0] == TermSpan(700, 3, 5, 4.0)


def test_patches_that_overlap_are_divided_by_time() -> None:
    cells, shares = disjoint(np.array([0, 2, 4]), np.array([4, 6, 8]))
    assert (cells.starts, cells.stops) == ((0, 2, 4, 6), (2, 4, 6, 8))
    assert shares is not None
    assert shares.tolist() == [[0.5, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 0.5]]


def test_patches_that_do_not_overlap_are_the_cells() -> None:
    cells, shares = disjoint(np.array([0, 4]), np.array([4, 6]))
    assert ((cells.starts, cells.stops), shares) == (((0, 4), (4, 6)), None)
