"""What one forward pass of the paper's net gives: logits and everything they are made of. Pure."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Output:
    """B windows, P patches, K chosen experts per patch, M experts, D width, Y classes. Invalid patches hold 0."""

    logits: Tensor
    """u (B, Y), pooled in hidden space before the class head; only in training mode the sum of the contributions."""
    contributions: Tensor
    """A (B, P, Y) = π ℓ; their sum over patches is u (Eq. decomposition goal)."""
    expert: Tensor
    """S_p (B, P, K): which experts were chosen, most probable first."""
    expert_logits: Tensor
    """o (B, P, K, Y) of the chosen experts."""
    weight: Tensor
    """w (B, P, K): sparse routing weights; they sum to 1 over K."""
    reliability: Tensor
    """κ (B, P, K) in [0, 1]."""
    score: Tensor
    """s (B, P)."""
    admission: Tensor
    """π (B, P); sums to 1 over the valid patches (up to ε)."""
    valid: Tensor
    """m (B, P), boolean."""
    anchors: Tensor | None = None
    """ã (B, M, D), posterior anchors; None on the serving path, where nothing needs them."""

    @property
    def expert_contributions(self) -> Tensor:
        """π w κ o (B, P, K, Y): each chosen expert's share of a contribution."""
        gate = self.admission.unsqueeze(-1) * self.weight * self.reliability  # (B, P, K)
        return gate.unsqueeze(-1) * self.expert_logits
