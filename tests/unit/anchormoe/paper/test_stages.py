import math

import numpy as np
import pytest
import torch

from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.dpar import posterior_anchors
from anchormoe.paper.mvre import alignment, band_of_bin, log_band_energies, position_code
from anchormoe.paper.rgc import sparse_weights
from anchormoe.paper.rgc_experts import ExpertLayers, assign, expert_heads
from anchormoe.paper.serving import group_by_expert


def test_a_constant_has_its_energy_in_the_first_band_and_a_fast_wave_in_the_last() -> None:
    config = ModelConfig(channels=2, classes=2, patch_length=8, patch_stride=4, bands=2)
    constant, wave = torch.ones(8), torch.tensor([1.0, -1.0] * 4)
    v = log_band_energies(torch.cat((constant, wave)).view(1, 1, 16), config)
    expected = torch.tensor([math.log(65), 0, 0, math.log(65)])  # |Σ x|² = 64 in bin 0 and in bin 4
    torch.testing.assert_close(v.flatten(), expected, atol=1e-5, rtol=0)


def test_bands_are_contiguous_nearly_equal_and_never_empty() -> None:
    assert band_of_bin(9, 4).tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3]
    assert band_of_bin(3, 3).tolist() == [0, 1, 2]


def test_the_alignment_is_the_scaled_product_with_the_centroid_of_valid_patches() -> None:
    token = torch.tensor([[[2.0, 0, 0, 0], [0, 4, 0, 0], [9, 9, 9, 9]]])
    valid = torch.tensor([[True, True, False]])
    # centroid (1, 2, 0, 0); products 2, 8, 27; divided by √4
    assert alignment(token, valid).flatten().tolist() == [1.0, 4.0, 13.5]


def test_the_alignment_of_a_fully_masked_series_is_zero() -> None:
    assert alignment(torch.ones(1, 2, 4), torch.zeros(1, 2, dtype=torch.bool)).flatten().tolist() == [0, 0]


def test_a_patch_has_the_same_position_code_in_a_longer_series() -> None:
    assert torch.equal(position_code(5, 16), position_code(9, 16)[:5])
    assert position_code(2, 4)[0].tolist() == [0, 1, 0, 1]


def test_an_anchor_is_the_weighted_centroid_of_the_units_of_its_expert() -> None:
    unit = torch.tensor([[[1.0, 0], [0, 1], [7, 7]]])
    routing = torch.tensor([[[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]]])
    anchors = posterior_anchors(unit, routing, torch.tensor([[True, True, False]]))
    torch.testing.assert_close(anchors[0], torch.tensor([[0.75, 0.25], [0.25, 0.75]]), atol=1e-5, rtol=0)


def test_sparse_weights_are_the_top_probabilities_renormalised_and_zero_on_invalid_patches() -> None:
    routing = torch.tensor([[[0.5, 0.1, 0.3, 0.1], [0.25, 0.25, 0.25, 0.25]]])
    weight, expert = sparse_weights(routing, torch.tensor([[True, False]]), 2)
    torch.testing.assert_close(weight[0, 0], torch.tensor([0.625, 0.375]))
    assert expert[0, 0].tolist() == [0, 2]
    assert weight[0, 1].tolist() == [0, 0]


def test_pairs_are_sorted_by_expert_and_invalid_patches_left_out() -> None:
    expert = torch.tensor([[[1, 0], [2, 1], [0, 1]]])
    pairs = assign(expert, torch.tensor([[True, False, True]]), experts=3)
    assert pairs.counts == [2, 2, 0]
    assert pairs.pair.tolist() == [1, 4, 0, 5]
    assert pairs.patch.tolist() == [0, 2, 0, 2]


def test_in_serving_each_expert_gets_whole_blocks_of_rows_and_invalid_pairs_come_last() -> None:
    rows = group_by_expert(np.array([1, 0, 2, 1]), M=2)  # the third pair is invalid
    assert rows.sizes == [8, 8, 1]
    assert rows.place.tolist() == [8, 0, 16, 9]
    assert rows.pair[[8, 0, 16, 9]].tolist() == [0, 1, 2, 3]
    assert rows.owner.tolist() == [0] * 8 + [1] * 8 + [2]


def some_layers(M: int, D: int, outputs: int, dtype: torch.dtype = torch.float32) -> ExpertLayers:
    generator = torch.Generator().manual_seed(0)
    shapes = ((M, D, D), (M, D), (M, outputs, D), (M, outputs))
    return ExpertLayers(*(torch.randn(shape, generator=generator).to(dtype) for shape in shapes))


def test_each_patch_is_read_by_its_own_experts_and_an_expert_may_have_none() -> None:
    pairs = assign(torch.tensor([[[2], [0], [0], [2]]]), torch.tensor([[True, True, False, True]]), experts=3)
    inner = torch.tensor([[[10.0]], [[99.0]], [[-1.0]]])
    layers = ExpertLayers(
        inner, torch.tensor([[1.0], [9.0], [5.0]]), torch.tensor([[[2.0]], [[9.0]], [[3.0]]]), torch.zeros(3, 1)
    )
    heads = expert_heads(torch.tensor([[1.0], [2.0], [3.0], [7.0]]), layers, pairs, None)
    # 3 · (−1 + 5); 2 · (20 + 1); invalid; ReLU stops −7 + 5
    assert heads.flatten().tolist() == [12, 42, 0, 0]


@pytest.mark.parametrize("dropout", [False, True])
def test_the_gradients_of_the_experts_are_right(dropout: bool) -> None:
    expert = torch.tensor([[[0, 3], [3, 1], [1, 0], [3, 0]]])
    pairs = assign(expert, torch.tensor([[True, True, False, True]]), experts=4)
    unit = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).double()
    factors = 2.0 * (torch.arange(18).view(6, 3) % 3 != 0).double() if dropout else None
    inputs = [part.requires_grad_() for part in (unit, *some_layers(4, 3, 2, dtype=torch.float64))]
    assert torch.autograd.gradcheck(
        lambda unit, *layers: expert_heads(unit, ExpertLayers(*layers), pairs, factors), inputs
    )


def test_under_autocast_the_experts_run_in_the_lower_precision() -> None:
    pairs = assign(torch.tensor([[[0], [0]]]), torch.ones(1, 2, dtype=torch.bool), experts=1)
    with torch.autocast("cpu", torch.bfloat16):
        heads = expert_heads(torch.ones(2, 8), some_layers(1, 8, 3), pairs, None)
    assert heads.dtype == torch.bfloat16
