"""The result of one forward pass of the paper's net: logits and everything they are made of. Pure."""

from typing import Any, Generic, NamedTuple, TypeVar

from numpy.typing import NDArray
from torch import Tensor

Array = TypeVar("Array", Tensor, NDArray[Any])
"""Tensors in training, numpy arrays in serving."""


class Output(NamedTuple, Generic[Array]):
    """B windows, P patches, K chosen experts per patch, M experts, D width, Y classes. Invalid patches hold 0."""

    logits: Array
    """u (B, Y); in serving pooled in hidden space before the class head, in training the sum of the contributions."""
    contributions: Array
    """A (B, P, Y) = π ℓ; their sum over patches is u (Eq. decomposition goal)."""
    expert: Array
    """S_p (B, P, K): the chosen experts, most probable first."""
    expert_logits: Array
    """o (B, P, K, Y) of the chosen experts."""
    weight: Array
    """w (B, P, K): sparse routing weights; they sum to 1 over K."""
    reliability: Array
    """κ (B, P, K) in [0, 1]."""
    score: Array
    """s (B, P)."""
    admission: Array
    """π (B, P); sums to 1 over the valid patches (up to ε)."""
    valid: Array
    """m (B, P), boolean."""
    anchors: Array | None = None
    """ã (B, M, D), posterior anchors; None in serving, where they are not needed."""

    @property
    def expert_contributions(self) -> Array:
        """π w κ o (B, P, K, Y): each chosen expert's share of a contribution."""
        gate = self.admission[..., None] * self.weight * self.reliability  # (B, P, K)
        contributions: Array = gate[..., None] * self.expert_logits
        return contributions
