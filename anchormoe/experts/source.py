"""The fitted committee as a source of evidence: one output per member, with exact token contributions."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.evidence import Json, SourceEvidence, SourceOutput
from anchormoe.experts.net import CommitteeNet
from anchormoe.experts.serialization import config_of, net_of
from anchormoe.experts.tokens import Geometry, Series, prepare
from anchormoe.experts.torch_backend import TorchCommittee
from anchormoe.simd.backend import Backend, choose_backend

PASS = 32
"""Cases at a time; a case's result does not depend on who shares its pass."""
PASS_ENTRIES = 8_000_000
"""Bound on the values that a pass reads for all members; cases of many channels or steps pass by fewer at a time."""


class Committee:
    """Several members, one network. `forward` gives one output per member, named m0, m1, …"""

    def __init__(self, net: CommitteeNet, *, device: torch.device | None = None) -> None:
        self._device = device or net.bias.device
        self._net = net.to(self._device).eval()
        self.backend = choose_backend(self._device.type, has_numba_code=self._net.shape.has_numba_code)
        self._serving = _serving_net(self._net, self.backend)

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
        passes = [self._pass(part) for part in self._parts(cases)]
        parts = passes[0] if len(passes) == 1 else [np.concatenate(part, axis=1) for part in zip(*passes, strict=True)]
        bounds = self.geometry.bounds(cases.steps)
        return [_output(f"m{m}", bounds, *(part[m] for part in parts)) for m in range(self.members)]

    def logits(self, cases: Cases, told: Callable[[int], None] = lambda done: None) -> Float64:
        """(G, N, Y), without the explanation; `told` hears of how many cases it has them."""
        logits = np.empty((self.members, len(cases), self._net.shape.classes))
        done = 0
        for part in self._parts(cases):
            series = prepare(part, self.geometry, self._device)
            logits[:, done : done + len(part)] = self._serving.logits(series)
            done += len(part)
            told(done)
        return logits

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {name: values.detach().cpu().numpy() for name, values in self._net.state_dict().items()}

    def config(self) -> dict[str, Json]:
        return config_of(self._net.shape)

    @classmethod
    def from_parts(cls, config: Mapping[str, Json], tensors: Mapping[str, NDArray[Any]]) -> "Committee":
        return cls(net_of(config, tensors))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by what it was made of: what serving keeps is made again."""
        return type(self).from_parts, (self.config(), self.tensors())

    def _parts(self, cases: Cases) -> Iterator[Cases]:
        entries = self.members * cases.channels * cases.steps
        size = max(1, min(PASS, PASS_ENTRIES // entries))
        if len(cases) <= size:
            return iter((cases,))
        return (cases.subset(slice(start, start + size)) for start in range(0, len(cases), size))

    def _pass(self, cases: Cases) -> tuple[Float64, ...]:
        """logits, context, values, expert values, weights, reliabilities, each (G, B, …)."""
        return self._serving.parts(prepare(cases, self.geometry, self._device))

    def _require_channels(self, cases: Cases) -> None:
        if cases.channels != self._net.shape.channels:
            raise ModelError(f"the experts know {self._net.shape.channels} channels, the data have {cases.channels}")


class _ServingNet(Protocol):
    """A committee's network for inference."""

    def parts(self, series: Series) -> tuple[Float64, ...]: ...

    def logits(self, series: Series) -> Float64: ...


def _serving_net(net: CommitteeNet, backend: Backend) -> _ServingNet:
    """The backends agree within rounding."""
    if backend == "torch":
        return TorchCommittee(net)
    from anchormoe.experts.numba_backend import NumbaCommittee  # imports numba

    return NumbaCommittee(net)


def _output(
    name: str,
    bounds: tuple[Int64, Int64],
    logits: Float64,
    context: Float64,
    values: Float64,
    expert_values: Float64,
    weight: Float64,
    reliability: Float64,
) -> SourceOutput:
    experts = tuple(f"e{m}" for m in range(weight.shape[-1]))
    evidence = SourceEvidence(
        name=name,
        start=bounds[0],
        stop=bounds[1],
        values=values,
        experts=experts,
        expert_values=expert_values,
        weight=weight,
        reliability=reliability,
    )
    return SourceOutput(logits, context, evidence)
