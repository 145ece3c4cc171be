"""Cases: what is valid, what is padding, what is refused."""

import numpy as np
import pytest

from anchormoe.cases import Cases
from anchormoe.errors import DataError


def test_nan_becomes_a_masked_zero() -> None:
    cases = Cases.from_arrays(np.array([[[1.0, np.nan], [2.0, np.nan]]]))
    assert cases.x.tolist() == [[[1, 0], [2, 0]]]
    assert cases.mask.tolist() == [[[True, False], [True, False]]]
    assert cases.step_mask.tolist() == [[True, False]]


def test_unequal_series_are_padded_at_the_end() -> None:
    cases = Cases.from_arrays([np.ones((2, 3)), np.ones((2, 1))])
    assert cases.x.shape == (2, 2, 3)
    assert cases.lengths.tolist() == [3, 1]
    assert cases.step_mask.tolist() == [[True, True, True], [True, False, False]]


def test_a_step_is_valid_if_any_channel_is() -> None:
    cases = Cases.from_arrays(np.array([[[1.0, np.nan], [np.nan, np.nan]]]))
    assert cases.step_mask.tolist() == [[True, False]]


def test_a_flat_table_is_one_channel() -> None:
    assert Cases.from_arrays(np.zeros((4, 7))).x.shape == (4, 1, 7)


def test_windows_may_hold_anything_where_they_are_masked() -> None:
    cases = Cases.from_windows(np.array([[[np.nan, 3.0]]]), np.array([[[False, True]]]))
    assert cases.x.tolist() == [[[0, 3]]]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (np.zeros((0, 1, 2)), "no cases"),
        ([], "no cases"),
        (np.zeros(3), "shape"),
        (np.array([[[np.inf, 0.0]]]), "case 0, channel 0"),
        (np.array([[[1e300, 0.0]]]), "too large"),
        ([np.zeros((1, 2)), np.zeros((2, 2))], "case 1 has 2 channels"),
        ([np.zeros((1, 0))], "at least 1"),
        ([np.array([["a"]])], "case 0: expected numbers"),
        ([np.array([[1 + 2j]])], "case 0: expected numbers"),
        (7, "an array or a list"),
    ],
)
def test_what_is_not_cases_is_refused_with_a_reason(data: object, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        Cases.from_arrays(data)


def test_windows_with_a_valid_nan_are_refused() -> None:
    with pytest.raises(DataError, match="not finite"):
        Cases.from_windows(np.array([[[np.nan]]]), np.array([[[True]]]))


def test_windows_need_a_mask_of_their_shape() -> None:
    with pytest.raises(DataError, match="mask of the same shape"):
        Cases.from_windows(np.zeros((1, 1, 2)), np.ones((1, 1, 3), bool))


def test_a_subset_keeps_order_and_padding() -> None:
    cases = Cases.from_arrays([np.full((1, 2), 1.0), np.full((1, 3), 2.0)])
    part = cases.subset([1, 0])
    assert part.lengths.tolist() == [3, 2]
    assert part.x[:, 0, 0].tolist() == [2, 1]


def test_resizing_pads_with_invalid_steps_and_cuts_lengths() -> None:
    cases = Cases.from_arrays(np.ones((1, 1, 3)))
    assert cases.resized(5).mask.tolist() == [[[True, True, True, False, False]]]
    assert cases.resized(2).lengths.tolist() == [2]
