"""The training loss of the paper, one value per window. Pure."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.paper.architecture import EPSILON
from anchormoe.paper.output import Output


@dataclass(frozen=True, slots=True)
class LossWeights:
    """λ_orth and λ_ra."""

    orth: float
    ra: float

    def warmed(self, share: float) -> "LossWeights":
        """Linear warm-up: the share in [0, 1] of the full weights."""
        share = min(1.0, max(0.0, share))
        return LossWeights(self.orth * share, self.ra * share)


def objective(output: Output[Tensor], y: Tensor, weights: LossWeights) -> Tensor:
    """L (B,) = L_CE + λ_orth L_orth + λ_ra L_ra (Eq. total loss); a term of weight 0 is not computed."""
    loss = functional.cross_entropy(output.logits, y, reduction="none")
    if weights.orth and output.anchors is not None:
        loss = loss + weights.orth * orthogonality(output.anchors)
    if weights.ra:
        loss = loss + weights.ra * reliability_alignment(output)
    return loss


def orthogonality(anchors: Tensor) -> Tensor:
    """L_orth (B,): mean squared cosine between the anchors (B, M, D) of different experts (Eq. orth)."""
    M = anchors.shape[1]
    if M < 2:
        return anchors.new_zeros(anchors.shape[0])
    product = torch.bmm(anchors, anchors.transpose(1, 2))  # (B, M, M)
    # A norm of exactly 0 (nothing valid) has no gradient; the lower bound is far below ε.
    norm = product.diagonal(dim1=1, dim2=2).clamp_min(1e-24).sqrt()  # (B, M)
    cosine = product / (norm.unsqueeze(1) * norm.unsqueeze(2) + EPSILON)
    off_diagonal = 1 - torch.eye(M, device=anchors.device)
    return (cosine.square() * off_diagonal).sum(dim=(1, 2)) / (M * (M - 1))


def reliability_alignment(output: Output[Tensor]) -> Tensor:
    """L_ra (B,): binary cross-entropy of s with the detached support target, over valid patches (Eq. ra loss)."""
    with torch.no_grad():
        target = support_target(output)  # b = sg(t)
    score = output.score.float().clamp(EPSILON, 1 - EPSILON)
    with torch.autocast(score.device.type, enabled=False):  # CUDA's mixed precision refuses this function
        entropy = functional.binary_cross_entropy(score, target.float(), reduction="none")  # (B, P)
    m = output.valid.to(entropy.dtype)
    return (entropy * m).sum(dim=1) / m.sum(dim=1).clamp_min(1)


def support_target(output: Output[Tensor]) -> Tensor:
    """t (B, P) in [0, 1]: size of the routing-only logit of the predicted class (Eq. free logit, Eq. ra target)."""
    free = (output.weight.unsqueeze(-1) * output.expert_logits).sum(dim=2)  # ℓ̄ (B, P, Y)
    predicted = output.logits.argmax(dim=-1).view(-1, 1, 1).expand(-1, free.shape[1], 1)
    size = free.gather(2, predicted).squeeze(-1).abs() * output.valid  # (B, P)
    return size / (size.amax(dim=1, keepdim=True) + EPSILON)
