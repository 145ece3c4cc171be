"""The grouped network against the formula written out member by member, and the loss terms against hand-made values."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.experts.augmentation import draw_shifts, draw_visible, rotate
from anchormoe.experts.loop import BATCH_BYTES, batch_size, one_cycle, planned_steps
from anchormoe.experts.losses import cross_entropy, orthogonality, reliability_alignment, sparsity
from anchormoe.experts.net import CommitteeNet, NetShape, RoutedTokens, keep_largest, position_code
from anchormoe.experts.settings import CommitteeSettings
from anchormoe.experts.tokens import Geometry


def _net(*, admission: bool = False) -> CommitteeNet:
    shape = NetShape(
        positioned=(True, False),
        centred=(True, True),
        channels=3,
        classes=4,
        width=6,
        experts=4,
        chosen=2,
        geometry=Geometry(kernel=5, stride=2, pool=1, length=20),
        admission=admission,
    )
    net = CommitteeNet(shape, torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return net


def _oracle(net: CommitteeNet, member: int, x: Tensor) -> Tensor:
    """a_t (B, P, Y) of one member, all experts computed, with a plain convolution and loops."""
    g, geometry = member, net.shape.geometry
    kernel = net.stem[g].T.reshape(net.shape.width, net.shape.channels, geometry.kernel)
    token = functional.conv1d(x, kernel, stride=geometry.stride, padding=geometry.kernel // 2).transpose(1, 2)
    token = token + net.stem_bias[g]
    if net.shape.positioned[g]:
        token = token + position_code(token.shape[1], geometry, x.device) @ net.place[g]
    token = functional.gelu(token)
    token = token + token @ net.mix[g] + net.mix_bias[g]
    token = functional.layer_norm(token, (net.shape.width,)) * net.norm[g] + net.norm_bias[g]
    routing = torch.softmax(token @ net.router[g], -1)
    kept = routing >= routing.sort(-1, descending=True).values[..., 1:2]
    weight = routing * kept / (routing * kept).sum(-1, keepdim=True)
    head = net.head[g] - net.head[g].mean(-1, keepdim=True)
    total = torch.zeros(*token.shape[:2], net.shape.classes)
    for r, expert in enumerate(net.expert[g].chunk(net.shape.experts, dim=1)):
        z = functional.silu(token @ expert + net.expert_bias[g].chunk(net.shape.experts, dim=1)[r])
        kappa = torch.sigmoid(z @ net.reliability[g, r] + net.reliability_bias[g, r])
        total += (weight[..., r] * kappa)[..., None] * (z @ head)
    return 8 / token.shape[1] * total


def test_the_grouped_network_equals_the_formula_of_each_member() -> None:
    net = _net()
    x = torch.randn(7, 3, 20, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        routed = net(x[None], torch.ones(1, 7, 10))
        values = (routed.expert_logits * routed.gate[..., None]).sum(-2)
        for member in (0, 1):
            torch.testing.assert_close(values[member], _oracle(net, member, x), rtol=1e-5, atol=1e-6)


def test_admission_shares_the_gain_by_reliability_among_valid_tokens() -> None:
    valid = torch.ones(1, 2, 10)
    valid[:, :, 6:] = 0
    scale = _net(admission=True)(torch.randn(1, 2, 3, 20), valid).scale
    torch.testing.assert_close(scale.sum(-1), torch.full((2, 2), 8.0))
    assert (scale[..., 6:] == 0).all()


def test_sparse_weights_keep_the_two_largest_and_sum_to_one() -> None:
    kept = keep_largest(torch.tensor([0.1, 0.4, 0.2, 0.3]), 2)
    torch.testing.assert_close(kept, torch.tensor([0.0, 4 / 7, 0.0, 3 / 7]))


def test_fusing_the_scaling_of_summaries_keeps_the_context() -> None:
    net, summary = _net(), torch.randn(1, 5, 6)
    mean, scale = torch.tensor([1.0, -2.0, 0.5] * 2), torch.tensor([2.0, 0.1, 1.0] * 2)
    before = net.context((summary - mean) / scale)
    net.fuse_summary_scaling(mean, scale)
    torch.testing.assert_close(net.context(summary), before, rtol=1e-4, atol=1e-4)


def test_a_subset_of_the_members_gives_the_same_outputs() -> None:
    net, x, valid = _net(), torch.randn(1, 2, 3, 20), torch.ones(1, 2, 10)
    part = net.subset([1])
    assert part.shape.positioned == (False,)
    torch.testing.assert_close(part(x, valid).expert_logits[0], net(x, valid).expert_logits[1])


def test_cross_entropy_leaves_out_cases_of_weight_zero() -> None:
    logits = torch.tensor([[[0.0, 0.0], [5.0, -5.0]]])
    loss = cross_entropy(logits, torch.tensor([[0, 1]]), torch.tensor([[1.0, 0.0]]))
    assert loss.tolist() == [pytest.approx(math.log(2))]


def test_sparsity_sums_norms_over_tokens() -> None:
    values = torch.tensor([[[[3.0, 4.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 2.0]]]])
    assert sparsity(values).tolist() == [pytest.approx((5 + 3) / 2)]


def _routed(tokens: Tensor, routing: Tensor, reliability: Tensor, expert_logits: Tensor) -> RoutedTokens:
    hidden = torch.zeros(*routing.shape, 2)
    return RoutedTokens(tokens, routing, routing, reliability, hidden, expert_logits, torch.ones(routing.shape[:3]))


def test_orthogonal_anchors_cost_nothing_and_equal_ones_cost_one() -> None:
    routing = torch.eye(2)[None, None]
    rest = (torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 2, 2, 3))
    valid = torch.ones(1, 1, 2)
    apart = _routed(torch.eye(2)[None, None], routing, *rest)
    alike = _routed(torch.ones(1, 1, 2, 2), routing, *rest)
    assert orthogonality(apart, valid).item() == pytest.approx(0.0)
    assert orthogonality(alike, valid).item() == pytest.approx(1.0)


def test_reliability_is_trained_to_follow_the_support_of_the_predicted_class() -> None:
    expert_logits = torch.tensor([[[[[4.0, 0.0]], [[-2.0, 0.0]]]]])  # one expert; supports 4 and 2: targets 1 and 1/2
    reliability = torch.tensor([[[[0.5], [0.5]]]])
    routed = _routed(torch.zeros(1, 1, 2, 2), torch.ones(1, 1, 2, 1), reliability, expert_logits)
    loss = reliability_alignment(routed, torch.ones(1, 1, 2), torch.tensor([[[1.0, 0.0]]]))
    assert loss.item() == pytest.approx(math.log(2))


def test_a_shift_rotates_a_case_within_its_own_length() -> None:
    x = torch.tensor([[[1.0, 2.0, 3.0, 4.0, 0.0, 0.0]]]).expand(50, 1, 6)
    length = torch.full((50,), 4)
    moved = rotate(x, length, draw_shifts(length, 0.25, torch.Generator().manual_seed(0)))
    seen = {tuple(case) for case in moved[:, 0].int().tolist()}
    assert seen == {(1, 2, 3, 4, 0, 0), (4, 1, 2, 3, 0, 0), (2, 3, 4, 1, 0, 0)}


def test_hidden_spans_take_15_to_50_percent_of_the_tokens_of_members_with_dropout() -> None:
    kept = draw_visible(torch.ones(2, 200, 100), torch.tensor([1.0, 0.0]), torch.Generator().manual_seed(0))
    hidden = 1 - kept.mean(-1)
    assert 0.13 <= hidden[0].min() <= hidden[0].max() <= 0.51
    assert (hidden[1] == 0).all()


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
