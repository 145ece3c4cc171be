"""Terms of a committee's training loss, one value per member."""

import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.experts.net import RoutedTokens

_EPSILON = 1e-8


def cross_entropy(logits: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """(G,): logits (G, B, Y), classes and case weights (G, B)."""
    loss = functional.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view_as(weight)
    return (loss * weight).sum(1) / weight.sum(1).clamp(min=_EPSILON)


def sparsity(values: Tensor) -> Tensor:
    """(G,): the sum over tokens of the norm of their contributions (G, B, P, Y), averaged over cases."""
    # The constant keeps the gradient finite where a token contributes exactly 0.
    return (values.square().sum(-1) + 1e-12).sqrt().sum(-1).mean(-1)


def orthogonality(routed: RoutedTokens, valid: Tensor) -> Tensor:
    """(G,): the paper's L_orth, the squared cosines between the posterior anchors of a case."""
    share = routed.routing * valid[..., None]  # (G, B, P, M)
    anchors = share.transpose(-1, -2) @ routed.tokens / (share.sum(2)[..., None] + _EPSILON)  # (G, B, M, D)
    unit = anchors / (torch.linalg.vector_norm(anchors, dim=-1, keepdim=True) + _EPSILON)
    experts = unit.shape[2]
    cosine = torch.matmul(unit, unit.transpose(-1, -2)) * (1 - torch.eye(experts, device=unit.device))
    return cosine.square().flatten(2).sum(-1).mean(-1) / float(max(experts * (experts - 1), 1))


def reliability_alignment(routed: RoutedTokens, valid: Tensor, logits: Tensor) -> Tensor:
    """(G,): the paper's L_ra, cross-entropy between a token's reliability and its support without the gate."""
    with torch.no_grad():
        free = (routed.weight[..., None] * routed.expert_logits).sum(-2)  # (G, B, P, Y)
        chosen = logits.argmax(-1)[..., None, None].expand(*free.shape[:3], 1)
        support = free.gather(-1, chosen).squeeze(-1).abs() * valid
        target = support / (support.amax(-1, keepdim=True) + _EPSILON)
    score = (routed.weight * routed.reliability).sum(-1).clamp(_EPSILON, 1 - 1e-6)
    loss = functional.binary_cross_entropy(score, target, reduction="none") * valid
    return (loss.sum(-1) / valid.sum(-1).clamp(min=1)).mean(-1)
