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
    """(G,): the sum over units of the norm of their contributions (G, B, U, Y), averaged over cases."""
    # The constant keeps the gradient finite where a unit contributes exactly 0.
    return (values.square().sum(-1) + 1e-12).sqrt().sum(-1).mean(-1)


def posterior_anchors(routed: RoutedTokens, valid: Tensor) -> Tensor:
    """(G, B, M, D): the paper's anchors, each expert's mean token of a case by its routing; valid (G, B, P)."""
    share = routed.routing * valid[..., None]  # (G, B, P, M)
    return torch.matmul(share.transpose(-1, -2), routed.tokens) / (share.sum(2)[..., None] + _EPSILON)


def cosines(anchors: Tensor) -> Tensor:
    """(…, M, M) between anchors (…, M, D)."""
    unit = anchors / (torch.linalg.vector_norm(anchors, dim=-1, keepdim=True) + _EPSILON)
    return torch.matmul(unit, unit.transpose(-1, -2))


def orthogonality(routed: RoutedTokens, valid: Tensor) -> Tensor:
    """(G,): the paper's L_orth, the squared cosines between the posterior anchors of a case; valid (G, B, P)."""
    cosine = cosines(posterior_anchors(routed, valid))
    experts = cosine.shape[-1]
    apart = cosine * (1 - torch.eye(experts, device=cosine.device))
    return apart.square().flatten(2).sum(-1).mean(-1) / float(max(experts * (experts - 1), 1))


def reliability_alignment(routed: RoutedTokens, valid: Tensor, free: Tensor, logits: Tensor) -> Tensor:
    """(G,): the paper's L_ra, cross-entropy between a token's reliability and its support without the gate.

    valid is (G, B, P), `free` (G, B, P, Y) the evidence by routing weights alone.
    """
    with torch.no_grad():
        chosen = logits.argmax(-1)[..., None, None].expand(*free.shape[:3], 1)
        support = free.gather(-1, chosen).squeeze(-1).abs() * valid
        target = support / (support.amax(-1, keepdim=True) + _EPSILON)
    score = (routed.weight * routed.reliability).sum(-1).float().clamp(_EPSILON, 1 - 1e-6)
    loss = functional.binary_cross_entropy(score, target, reduction="none") * valid
    return (loss.sum(-1) / valid.sum(-1).clamp(min=1)).mean(-1)
