"""What an explainer is given and what it answers; all explain the same number: the predicted class's centred logit."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from anchormoe.benchmark.explainers.registry import Needs
from anchormoe.cases import Float64


class ExplainedModel(Protocol):
    """A classifier of scaled series: x (B, C, T), 0 where masked and 0 for TRAIN's mean; mask (B, C, T) boolean."""

    offers: frozenset[Needs]

    def logits(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, Y)"""
        ...

    def network(self) -> nn.Module:
        """`forward(x, mask)` gives (B, Y), `embed(x, mask)` an embedding (B, D) and (B, Y); a fresh copy."""
        ...


@dataclass(frozen=True, slots=True)
class SeriesBatch:
    """Scaled series (N, C, T), their mask, and the predicted classes (N,)."""

    x: Tensor
    mask: Tensor
    label: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def parts(self, size: int) -> "Iterator[SeriesBatch]":
        for at in range(0, len(self), size):
            part = slice(at, at + size)
            yield SeriesBatch(self.x[part], self.mask[part], self.label[part])


@dataclass(frozen=True, slots=True)
class Explanation:
    """`values` (N, C, T), 0 where masked. `over_time` (N, T) where a method scores steps by themselves."""

    values: Float64
    over_time: Float64 | None = None
    facts: dict[str, float] = field(default_factory=dict)


Explain = Callable[[SeriesBatch], Explanation]
Prepare = Callable[[ExplainedModel, SeriesBatch, int], Explain]
"""From the model, TRAIN with its predictions, and the seed; what an explainer learns, it learns here."""


class CentredLogits(nn.Module):
    """The logits minus their mean over classes, which softmax does not see: the number that our evidence adds up to."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = self.net(x, mask)
        return logits - logits.mean(dim=1, keepdim=True)


def as_values(attributions: Tensor, mask: Tensor) -> Float64:
    """(N, C, T) as numpy, 0 where masked."""
    return np.asarray((attributions.detach() * mask).double().numpy())


def torch_generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
