"""The fitted committee as a source of evidence: one output per member, with exact token contributions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.evidence import Json, SourceEvidence, SourceOutput
from anchormoe.experts.net import CommitteeNet, Routed, apart
from anchormoe.experts.parts import config_of, net_of
from anchormoe.experts.tokens import Geometry, Series, for_members, prepare

BLOCK = 8
"""Windows per pass. Every pass has this shape, so that a window's result does not depend on its neighbours."""


class Committee:
    """Several members, one network. `forward` gives one output per member, named m0, m1, …"""

    def __init__(self, net: CommitteeNet, *, device: torch.device | None = None) -> None:
        self._device = device or net.bias.device
        self._net = net.to(self._device).eval()

    @property
    def members(self) -> int:
        return self._net.shape.members

    @property
    def geometry(self) -> Geometry:
        return self._net.shape.geometry

    def to(self, device: torch.device | str) -> "Committee":
        return Committee(self._net, device=torch.device(device))

    def forward(self, cases: Cases) -> list[SourceOutput]:
        self._require_channels(cases)
        with torch.inference_mode():
            blocks = [self._block(cases.subset(slice(i, i + BLOCK))) for i in range(0, len(cases), BLOCK)]
        parts = [np.concatenate(part, axis=1) for part in zip(*blocks, strict=True)]
        bounds = self.geometry.bounds(cases.steps)
        return [_output(f"m{m}", bounds, *(part[m] for part in parts)) for m in range(self.members)]

    def logits(self, cases: Cases) -> Float64:
        """(G, N, Y), without the explanation."""
        blocks = []
        with torch.inference_mode():
            for i in range(0, len(cases), BLOCK):
                series, routed = self._routed(cases.subset(slice(i, i + BLOCK)))
                blocks.append(_pooled(self._net, routed, series)[0].cpu().numpy())
        return np.asarray(np.concatenate(blocks, axis=1)[:, : len(cases)])

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {name: values.detach().cpu().numpy() for name, values in self._net.state_dict().items()}

    def config(self) -> dict[str, Json]:
        return config_of(self._net.shape)

    @classmethod
    def from_parts(cls, config: Mapping[str, Json], tensors: Mapping[str, NDArray[Any]]) -> "Committee":
        return cls(net_of(config, tensors))

    def _block(self, cases: Cases) -> tuple[Float64, ...]:
        """logits, context, expert values, weights, reliabilities, each (G, B, …), of at most BLOCK cases."""
        series, routed = self._routed(cases)
        parts = (*_pooled(self._net, routed, series), *_explained(routed))
        return tuple(part[:, : len(cases)].double().cpu().numpy() for part in parts)

    def _routed(self, cases: Cases) -> tuple[Series, Routed]:
        series = _filled(prepare(cases, self.geometry, self._device))
        x = for_members(series.x[None], series.mask[None], series.level[None], self._net.shape.centred)
        return series, self._net(x, series.valid[None])

    def _require_channels(self, cases: Cases) -> None:
        if cases.channels != self._net.shape.channels:
            raise ModelError(f"the experts know {self._net.shape.channels} channels, the data have {cases.channels}")


def _filled(series: Series) -> Series:
    """Padded with empty cases to BLOCK."""
    missing = BLOCK - len(series)
    parts = (series.x, series.mask, series.level, series.summary, series.valid, series.length)
    return Series(*(torch.cat((part, part.new_zeros((missing, *part.shape[1:])))) for part in parts))


def _pooled(net: CommitteeNet, routed: Routed, series: Series) -> tuple[Tensor, Tensor]:
    """Logits and context (G, B, Y): hidden evidence summed over tokens first, the class head applied once."""
    context = net.context(series.summary[None]).double()
    gated = routed.hidden * routed.gate[..., None]  # (G, B, P, M, D)
    pooled = gated.sum(3).sum(2, dtype=torch.float64)  # (G, B, D)
    return context + apart(pooled, net.class_head().double()), context


def _explained(routed: Routed) -> tuple[Tensor, Tensor, Tensor]:
    """The class head applied to every token and expert: values (G, B, P, M, Y), weights and gates (G, B, P, M)."""
    valid = (routed.scale > 0)[..., None]
    return routed.opinions * routed.gate[..., None], routed.weight * valid, routed.reliability * valid


def _output(
    name: str,
    bounds: tuple[Int64, Int64],
    logits: Float64,
    context: Float64,
    expert_values: Float64,
    weight: Float64,
    reliability: Float64,
) -> SourceOutput:
    experts = tuple(f"e{m}" for m in range(weight.shape[-1]))
    evidence = SourceEvidence(
        name=name,
        start=bounds[0],
        stop=bounds[1],
        values=expert_values.sum(2),
        experts=experts,
        expert_values=expert_values,
        weight=weight,
        reliability=reliability,
    )
    return SourceOutput(logits, context, evidence)
