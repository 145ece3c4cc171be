"""What the stages of the paper's serving net hand to each other. Pure."""

from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray
from torch import Tensor

from anchormoe.cases import Float32
from anchormoe.paper.output import Output

Served = Output[NDArray[Any]]

ROWS = 8
"""Rows of every matrix product come in multiples of this."""


class PatchMask(NamedTuple):
    """What the masks of B windows say about their P patches; P' is P filled up to a multiple of eight."""

    valid: Tensor
    """(B, P)"""
    m: Tensor
    """(B, P, 1), 0 or 1"""
    share: Tensor
    """m / Σ m (B, 1, P'), 0 beyond P"""
    position: Tensor
    """Position codes (P', D)"""


class ServingSteps(Protocol):
    """What lies around the matrix products of the paper's net, by torch or compiled."""

    def cut(self, x: Tensor, mask: Tensor) -> tuple[Tensor, bool]:
        """The patches (B·P', C·L), and whether all of the mask is set."""
        ...

    def logits(self, unit: Tensor, scores: Tensor, frame: PatchMask) -> Float32:
        """u (B, Y), from units (B·P', D) and router scores (B·P', ≥ M); only the chosen experts are computed."""
        ...

    def output(self, unit: Tensor, scores: Tensor, frame: PatchMask) -> Served:
        """What `logits` gives, bitwise, with everything it is made of."""
        ...


def filled(count: int) -> int:
    """Rounded up to whole blocks of eight rows."""
    return -(-count // ROWS) * ROWS
