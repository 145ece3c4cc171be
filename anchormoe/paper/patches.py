"""Cuts series into overlapping patches and marks the valid ones (Eq. patch set). Pure."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.errors import ModelError


@dataclass(frozen=True, slots=True)
class PatchGrid:
    """Patches of `length` steps, one every `stride` steps; the last one is padded so that every step is covered."""

    length: int
    stride: int

    def __post_init__(self) -> None:
        if not 1 <= self.stride <= self.length:
            raise ModelError(f"patch stride {self.stride} must lie between 1 and the patch length {self.length}")

    def count(self, steps: int, multiple: int = 1) -> int:
        """Number of patches that cover `steps` steps, rounded up to a multiple; at least one."""
        needed = 1 + max(0, -(-(steps - self.length) // self.stride))
        return -(-needed // multiple) * multiple

    def cut(self, x: Tensor, multiple: int = 1) -> Tensor:
        """x (B, C, T) → (B, P, C·L), channel by channel inside a patch, zeros beyond the end."""
        B, C, T = x.shape
        P = self.count(T, multiple)
        missing = (P - 1) * self.stride + self.length - T
        padded = functional.pad(x, (0, missing)) if missing else x
        windows = padded.unfold(2, self.length, self.stride)  # (B, C, P, L)
        return windows.transpose(1, 2).reshape(B, P, C * self.length).contiguous()  # (B, P, C·L)

    def valid(self, mask: Tensor) -> Tensor:
        """m_p (B, P), boolean, from the mask (B, C, T): a patch is valid if it has a valid step and is needed.

        The series ends at its last valid step; a patch is needed if the previous one does not reach that end.
        So padding a series adds no valid patch.
        """
        T = mask.shape[2]
        P = self.count(T)
        if bool(mask.all()):  # the usual case, ten times as fast
            return torch.ones(len(mask), P, dtype=torch.bool, device=mask.device)
        step = mask.any(dim=1)  # (B, T)
        position = torch.arange(1, T + 1, device=mask.device)
        end = (step * position).amax(dim=1, keepdim=True)  # (B, 1)
        covered = (torch.arange(-1, P - 1, device=mask.device) * self.stride + self.length).clamp_min(0)
        covered[0] = 0
        missing = (P - 1) * self.stride + self.length - T
        padded = functional.pad(step.float()[:, None], (0, missing))  # (B, 1, T')
        observed = functional.max_pool1d(padded, self.length, self.stride)[:, 0] > 0  # (B, P)
        return observed & (covered < end)
