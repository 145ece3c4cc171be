"""A fitted committee as a source of evidence: one output per member, with exact contributions of its tokens."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.evidence import Json, SourceEvidence, SourceOutput, Term
from anchormoe.experts.net import CommitteeNet, CommitteeOutput
from anchormoe.experts.serialization import read_net, shape_config
from anchormoe.experts.tokens import Geometry, Series, prepare
from anchormoe.experts.torch_backend import TorchCommittee
from anchormoe.simd.backend import Backend, choose_backend

CASES_PER_PASS = 32
"""At most; a case's result does not depend on the others in its pass."""
ENTRIES_PER_PASS = 8_000_000
"""Values read for all members: a pass has fewer cases if they have many channels or steps."""


class Committee:
    """Several members in one network. `forward` returns one output per member, named m0, m1, …"""

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
        passes = [self._serving.forward(prepare(part, self.geometry, self._device)) for part in self._passes(cases)]
        output = passes[0] if len(passes) == 1 else _concatenate(passes)
        bounds, every = self.geometry.bounds(cases.steps), tuple(range(cases.channels))
        return [_member_output(output, member, bounds, every) for member in range(self.members)]

    def logits(self, cases: Cases, progress: Callable[[int], None] = lambda done: None) -> Float64:
        """(G, N, Y), without the explanation; `progress` is given the number of cases done."""
        logits = np.empty((self.members, len(cases), self._net.shape.classes))
        done = 0
        for part in self._passes(cases):
            series = prepare(part, self.geometry, self._device)
            logits[:, done : done + len(part)] = self._serving.logits(series)
            done += len(part)
            progress(done)
        return logits

    def peak_bytes(self, windows: int, steps: int) -> int:
        """Padded series; one pass: what tokens read and the experts' outputs; the values of all windows."""
        shape, geometry = self._net.shape, self.geometry
        tokens = -(-geometry.coarse_steps(steps) // geometry.stride)
        padded = geometry.coarse_steps(steps) * geometry.pool + geometry.kernel
        entries = self.members * shape.channels * steps
        in_pass = min(windows, max(1, min(CASES_PER_PASS, ENTRIES_PER_PASS // entries)))
        per_token = shape.read_channels * geometry.kernel + shape.experts * (2 * shape.width + 2 * shape.classes)
        one_pass = in_pass * (shape.channels * padded * 12 + self.members * tokens * 8 * per_token)
        return one_pass + windows * self.members * tokens * 16 * (shape.experts + 1) * (shape.classes + 2)

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {name: values.detach().cpu().numpy() for name, values in self._net.state_dict().items()}

    def config(self) -> dict[str, Json]:
        return shape_config(self._net.shape)

    @classmethod
    def from_parts(cls, config: Mapping[str, Json], tensors: Mapping[str, NDArray[Any]]) -> "Committee":
        return cls(read_net(config, tensors))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its configuration and tensors: another machine may use another backend."""
        return type(self).from_parts, (self.config(), self.tensors())

    def _passes(self, cases: Cases) -> Iterator[Cases]:
        entries = self.members * cases.channels * cases.steps
        size = max(1, min(CASES_PER_PASS, ENTRIES_PER_PASS // entries))
        if len(cases) <= size:
            return iter((cases,))
        return (cases.subset(slice(start, start + size)) for start in range(0, len(cases), size))

    def _require_channels(self, cases: Cases) -> None:
        if cases.channels != self._net.shape.channels:
            raise ModelError(
                f"the experts were trained on {self._net.shape.channels} channels, the data have {cases.channels}"
            )


class _ServingNet(Protocol):
    """A committee's network for inference."""

    def forward(self, series: Series) -> CommitteeOutput: ...

    def logits(self, series: Series) -> Float64: ...


def _serving_net(net: CommitteeNet, backend: Backend) -> _ServingNet:
    """The backends agree within rounding."""
    if backend == "torch":
        return TorchCommittee(net)
    from anchormoe.experts.numba_backend import NumbaCommittee  # imports numba

    return NumbaCommittee(net)


def _concatenate(passes: list[CommitteeOutput]) -> CommitteeOutput:
    return CommitteeOutput(*(np.concatenate(parts, axis=1) for parts in zip(*passes, strict=True)))


def _member_output(output: CommitteeOutput, member: int, bounds: tuple[Int64, Int64], every: Term) -> SourceOutput:
    logits, context, values, expert_values, weight, reliability = (part[member] for part in output)
    evidence = SourceEvidence(
        name=f"m{member}",
        start=bounds[0],
        stop=bounds[1],
        terms=(every,),
        values=values[:, :, None],
        experts=tuple(f"e{expert}" for expert in range(weight.shape[-1])),
        expert_values=expert_values[:, :, None],
        weight=weight[:, :, None],
        reliability=reliability[:, :, None],
    )
    return SourceOutput(logits, context, evidence)
