"""The grouped network against the formula written out member by member, and the loss terms against hand-made values."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.experts.augmentation import draw_kept, draw_shifts, rotate
from anchormoe.experts.geometry import Geometry
from anchormoe.experts.loop import BATCH_BYTES, batch_size, one_cycle, planned_steps
from anchormoe.experts.losses import (
    cross_entropy,
    orthogonality,
    posterior_anchors,
    reliability_alignment,
    sparsity,
)
from anchormoe.experts.net import CommitteeNet, RoutedTokens, keep_largest, position_code
from anchormoe.experts.settings import CommitteeSettings
from anchormoe.experts.shape import NetShape


def _net(*, admission: bool = False, bounded: bool = False) -> CommitteeNet:
    shape = NetShape(
        positioned=(True, False),
        centred=(True, True),
        channels=3,
        read=(),
        classes=4,
        width=6,
        value_width=5,
        experts=4,
        chosen=2,
        geometry=Geometry(kernel=5, stride=2, pool=1, length=20),
        admission=admission,
        bounded=bounded,
    )
    net = CommitteeNet(shape, torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return net


def _evidence(net: CommitteeNet, x: Tensor, valid: Tensor | None = None) -> Tensor:
    """(G, R, B, P, Y) of cases x (B, R, S)."""
    positions = torch.full((1, len(x)), 10)
    routed = net(x[None], x[None], torch.ones(1, *x.shape[:2], 10) if valid is None else valid, positions)
    return net.evidence(routed, routed.weight * routed.reliability)


def _oracle(net: CommitteeNet, member: int, x: Tensor) -> Tensor:
    """a (R, B, P, Y) of one member, all experts computed, with plain convolutions and loops."""
    g, geometry, width = member, net.shape.geometry, net.shape.value_width
    stride, padding = geometry.stride, geometry.kernel // 2
    kernel = net.stem[g].T.reshape(net.shape.width, net.shape.channels, geometry.kernel)
    token = functional.conv1d(x, kernel, stride=stride, padding=padding).transpose(1, 2) + net.stem_bias[g]
    if net.shape.positioned[g]:
        token = token + position_code(token.shape[1], geometry, x.device) @ net.place[g]
    token = functional.gelu(token)
    token = token + token @ net.mix[g] + net.mix_bias[g]
    token = functional.layer_norm(token, (net.shape.width,)) * net.norm[g] + net.norm_bias[g]
    routing = torch.softmax(token @ net.router[g], -1)
    kept = routing >= routing.sort(-1, descending=True).values[..., 1:2]
    weight = routing * kept / (routing * kept).sum(-1, keepdim=True)
    kappa = torch.sigmoid(token @ net.reliability[g] + net.reliability_bias[g])
    opening = torch.tanh(token @ net.expert[g] + net.expert_bias[g])
    head = net.head[g] - net.head[g].mean(-1, keepdim=True)
    channels = []
    for c in range(net.shape.channels):
        own = functional.conv1d(x[:, c : c + 1], net.value[g, c].T[:, None], stride=stride, padding=padding)
        read = own.transpose(1, 2)
        read = torch.tanh(read) if net.shape.bounded else read
        experts = [
            (weight * kappa)[..., m, None] * (opening[..., m * width : (m + 1) * width] * read) for m in range(4)
        ]
        channels.append(8 / token.shape[1] * sum(experts, torch.zeros(())) @ head)
    return torch.stack(channels)


@pytest.mark.parametrize("bounded", [False, True])
def test_the_grouped_network_equals_the_formula_of_each_member(bounded: bool) -> None:
    net = _net(bounded=bounded)
    x = torch.randn(7, 3, 20, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        values = _evidence(net, x)
        for member in (0, 1):
            torch.testing.assert_close(values[member], _oracle(net, member, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bounded", [False, True])
def test_a_channel_at_its_level_adds_exactly_nothing(bounded: bool) -> None:
    x = torch.randn(2, 3, 20)
    x[:, 1] = 0
    with torch.no_grad():
        values = _evidence(_net(bounded=bounded), x)
    assert (values[:, 1] == 0).all()
    assert (values[:, [0, 2]] != 0).any()


def test_a_bounded_reading_adds_no_more_than_its_weights_however_large_the_event() -> None:
    net, x = _net(bounded=True), torch.zeros(1, 3, 20)
    x[:, 0, 8:13] = 1e6
    with torch.no_grad():
        values, most = _evidence(net, x), 0.8 * net.class_head().abs().sum(1).amax()  # the gain is 8 / 10 positions
    assert values.abs().max() <= most


def test_a_missing_token_takes_its_own_evidence_away_and_nothing_else() -> None:
    net, x, valid = _net(), torch.randn(2, 3, 20), torch.ones(1, 2, 3, 10)
    valid[:, :, 1, 4:] = 0
    with torch.no_grad():
        whole, part = _evidence(net, x), _evidence(net, x, valid)
    torch.testing.assert_close(part, whole * valid.transpose(1, 2)[..., None], rtol=0, atol=0)


def test_admission_shares_the_gain_by_reliability_among_valid_tokens() -> None:
    valid = torch.ones(1, 2, 3, 10)
    valid[..., 6:] = 0
    x = torch.randn(1, 2, 3, 20)
    scale = _net(admission=True)(x, x, valid, torch.full((1, 2), 10)).scale
    torch.testing.assert_close(scale.sum(-1), torch.full((2, 3, 2), 8.0))
    assert (scale[..., 6:] == 0).all()


def test_sparse_weights_keep_the_two_largest_and_sum_to_one() -> None:
    kept = keep_largest(torch.tensor([0.1, 0.4, 0.2, 0.3]), 2)
    torch.testing.assert_close(kept, torch.tensor([0.0, 4 / 7, 0.0, 3 / 7]))


def test_fusing_the_scaling_of_levels_keeps_their_evidence() -> None:
    net, summary, present = _net(), torch.randn(1, 5, 3, 2), torch.ones(1, 5, 3)
    mean, scale = torch.randn(2, 3, 2), torch.rand(2, 3, 2) + 0.1
    before = net.level_evidence((summary - mean[:, None]) / scale[:, None], present)
    net.fuse_level_scaling(mean, scale)
    torch.testing.assert_close(net.level_evidence(summary, present), before, rtol=1e-4, atol=1e-4)


def test_the_level_of_a_missing_channel_adds_exactly_nothing() -> None:
    net = _net()
    net.level_mean.add_(0.5)
    present = torch.tensor([[[1.0, 0.0, 1.0]]])
    values = net.level_evidence(torch.zeros(1, 1, 3, 2), present)
    assert (values[:, :, 1] == 0).all()
    assert (values[:, :, 0] != 0).any()


def test_a_subset_of_the_members_gives_the_same_outputs() -> None:
    net, x = _net(), torch.randn(2, 3, 20)
    part = net.subset([1])
    assert part.shape.positioned == (False,)
    torch.testing.assert_close(_evidence(part, x)[0], _evidence(net, x)[1])


def test_cross_entropy_leaves_out_cases_of_weight_zero() -> None:
    logits = torch.tensor([[[0.0, 0.0], [5.0, -5.0]]])
    loss = cross_entropy(logits, torch.tensor([[0, 1]]), torch.tensor([[1.0, 0.0]]))
    assert loss.tolist() == [pytest.approx(math.log(2))]


def test_sparsity_sums_norms_over_tokens() -> None:
    values = torch.tensor([[[[3.0, 4.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 2.0]]]])
    assert sparsity(values).tolist() == [pytest.approx((5 + 3) / 2)]


def _routed(tokens: Tensor, routing: Tensor, reliability: Tensor) -> RoutedTokens:
    nothing = torch.zeros(())
    return RoutedTokens(tokens, routing, routing, reliability, nothing, nothing, nothing)


def test_orthogonal_anchors_cost_nothing_and_equal_ones_cost_one() -> None:
    routing, valid = torch.eye(2)[None, None], torch.ones(1, 1, 2)
    apart = _routed(torch.eye(2)[None, None], routing, torch.zeros(1, 1, 2, 2))
    alike = _routed(torch.ones(1, 1, 2, 2), routing, torch.zeros(1, 1, 2, 2))
    assert orthogonality(apart, valid).item() == pytest.approx(0.0)
    assert orthogonality(alike, valid).item() == pytest.approx(1.0)


def test_an_anchor_is_the_mean_of_the_valid_tokens_by_their_routing() -> None:
    tokens = torch.tensor([[[[1.0, 0.0], [0.0, 2.0], [9.0, 9.0]]]])
    routing = torch.tensor([[[[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]]]])
    anchors = posterior_anchors(_routed(tokens, routing, routing), torch.tensor([[[1.0, 1.0, 0.0]]]))
    torch.testing.assert_close(anchors[0, 0], torch.tensor([[0.75, 0.5], [0.25, 1.5]]))


def test_reliability_is_trained_to_follow_the_support_of_the_predicted_class() -> None:
    free = torch.tensor([[[[4.0, 0.0], [-2.0, 0.0]]]])  # supports 4 and 2: targets 1 and 1/2
    routed = _routed(torch.zeros(1, 1, 2, 2), torch.ones(1, 1, 2, 1), torch.tensor([[[[0.5], [0.5]]]]))
    loss = reliability_alignment(routed, torch.ones(1, 1, 2), free, torch.tensor([[[1.0, 0.0]]]))
    assert loss.item() == pytest.approx(math.log(2))


def test_a_shift_rotates_a_case_within_its_own_length() -> None:
    x = torch.tensor([[[1.0, 2.0, 3.0, 4.0, 0.0, 0.0]]]).expand(50, 1, 6)
    length = torch.full((50,), 4)
    moved = rotate(x, length, draw_shifts(length, 0.25, torch.Generator().manual_seed(0)))
    seen = {tuple(case) for case in moved[:, 0].int().tolist()}
    assert seen == {(1, 2, 3, 4, 0, 0), (4, 1, 2, 3, 0, 0), (2, 3, 4, 1, 0, 0)}


def test_missing_spans_take_10_to_50_percent_of_a_case_in_all_or_some_channels() -> None:
    length = torch.full((2, 300), 80)
    kept = draw_kept(torch.Size((2, 300, 4, 100)), length, torch.tensor([1.0, 0.0]), torch.Generator().manual_seed(0))
    missing = (~kept[0, :, :, :80]).float().mean(-1)  # (B, R)
    hit = missing > 0
    assert 0.08 <= missing[hit].min() <= missing.max() <= 0.52
    assert 0.4 < hit.all(1).float().mean() < 0.7
    assert kept[0, :, :, 80:].all()
    assert kept[1].all()


def test_the_learning_rate_rises_and_falls_once() -> None:
    rates = [one_cycle(i / 100) for i in range(100)]
    peak = rates.index(max(rates))
    assert peak == 25
    assert rates[:26] == sorted(rates[:26])
    assert rates[25:] == sorted(rates[25:], reverse=True)
    assert rates[-1] < 0.01


def test_batches_are_limited_by_bytes_and_by_cases() -> None:
    assert batch_size(1000, 10, CommitteeSettings(batch=64)) == 64
    assert batch_size(30, 10, CommitteeSettings(batch=64)) == 30
    assert batch_size(1000, BATCH_BYTES // 4 // 8, CommitteeSettings(batch=64)) == 8
    assert batch_size(1000, BATCH_BYTES, CommitteeSettings(batch=64)) == 4


def test_small_sets_get_enough_steps_and_large_ones_not_too_many() -> None:
    settings = CommitteeSettings(epochs=50, batch=64, min_steps=300, max_steps=1500)
    assert [planned_steps(cases, settings) for cases in (12, 640, 50_000)] == [300, 500, 1500]
