import pytest
import torch

from anchormoe.errors import ModelError
from anchormoe.paper.patches import PatchGrid


def test_the_last_patch_is_padded_so_that_every_step_is_covered() -> None:
    x = torch.arange(1.0, 8.0).view(1, 1, 7)
    patches = PatchGrid(4, 2).cut(x)
    assert patches.tolist() == [[[1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 7, 0]]]


def test_a_series_shorter_than_a_patch_gives_one_padded_patch() -> None:
    x = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    assert PatchGrid(3, 1).cut(x).tolist() == [[[1, 2, 0, 3, 4, 0]]]


@pytest.mark.parametrize(("steps", "count"), [(1, 1), (4, 1), (5, 2), (6, 2), (7, 3), (8, 3)])
def test_the_number_of_patches_is_the_least_that_covers(steps: int, count: int) -> None:
    assert PatchGrid(4, 2).count(steps) == count


def test_patches_can_be_padded_to_a_multiple() -> None:
    grid = PatchGrid(4, 2)
    assert grid.count(7, multiple=8) == 8
    assert grid.cut(torch.ones(1, 1, 7), multiple=8).shape == (1, 8, 4)


def test_padding_adds_no_valid_patch_even_where_another_one_would_still_touch_the_series() -> None:
    mask = torch.zeros(1, 2, 12, dtype=torch.bool)
    mask[0, 0, :5] = True  # patches 0..4 and 2..6 cover five steps; 4..8 touches the fifth but is not needed
    assert PatchGrid(4, 2).valid(mask).tolist() == [[True, True, False, False, False]]


def test_a_patch_without_a_valid_step_is_invalid_and_one_channel_is_enough() -> None:
    mask = torch.zeros(1, 2, 8, dtype=torch.bool)
    mask[0, 1, 0] = mask[0, 0, 7] = True
    assert PatchGrid(2, 2).valid(mask).tolist() == [[True, False, False, True]]


def test_nothing_is_valid_in_a_fully_masked_series() -> None:
    assert not PatchGrid(4, 2).valid(torch.zeros(2, 3, 9, dtype=torch.bool)).any()


@pytest.mark.parametrize(("length", "stride"), [(4, 5), (4, 0), (0, 0)])
def test_a_stride_that_would_leave_steps_out_is_refused(length: int, stride: int) -> None:
    with pytest.raises(ModelError, match="stride"):
        PatchGrid(length, stride)
