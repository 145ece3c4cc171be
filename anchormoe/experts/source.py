"""A fitted committee as a source of evidence: one output per member, with exact contributions of its tokens."""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.evidence import Json, SourceEvidence, SourceOutput
from anchormoe.experts.losses import cosines
from anchormoe.experts.net import CommitteeNet, CommitteeOutput
from anchormoe.experts.serialization import read_net, shape_config
from anchormoe.experts.tokens import Geometry, Series, prepare
from anchormoe.experts.torch_backend import TorchCommittee
from anchormoe.simd.backend import Backend, choose_backend

LEVEL = "level"
"""Name of the expert for the medians and means of the channels."""
CASES_PER_PASS = 32
"""At most; a case's result does not depend on the others in its pass."""
ENTRIES_PER_PASS = 8_000_000
"""Values read for all members: a pass has fewer cases if they have many channels or steps."""
_CACHED = 32


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

    @property
    def anchors(self) -> Float64:
        """(G, M, D) posterior anchors: the mean TRAIN token of each expert, weighted by its routing."""
        return np.asarray(self._net.anchors.double().cpu().numpy())

    @property
    def anchor_cosines(self) -> Float64:
        """(G, M, M) how alike what the experts of a member are given is: 1 for the same, 0 for unrelated tokens."""
        return np.asarray(cosines(self._net.anchors.double()).cpu().numpy())

    def forward(self, cases: Cases) -> list[SourceOutput]:
        self._require_channels(cases)
        passes = [self._serving.forward(self._prepare(part)) for part in self._passes(cases)]
        output = passes[0] if len(passes) == 1 else _concatenate(passes)
        bounds = unit_bounds(self.geometry, cases.steps)
        return [self._member_output(output, member, bounds) for member in range(self.members)]

    def logits(self, cases: Cases, progress: Callable[[int], None] = lambda done: None) -> Float64:
        """(G, N, Y), without the explanation; `progress` is given the number of cases done."""
        logits = np.empty((self.members, len(cases), self._net.shape.classes))
        done = 0
        for part in self._passes(cases):
            logits[:, done : done + len(part)] = self._serving.logits(self._prepare(part))
            done += len(part)
            progress(done)
        return logits

    def peak_bytes(self, windows: int, steps: int) -> int:
        """Padded series; one pass: what tokens read and the experts' outputs; the values of all windows."""
        shape, geometry = self._net.shape, self.geometry
        tokens = shape.read_channels * geometry.positions(steps)
        padded = geometry.coarse_steps(steps) * geometry.pool + geometry.kernel
        in_pass = min(windows, self._cases_per_pass(steps))
        per_token = geometry.kernel + shape.width + shape.experts * (2 * shape.value_width + 2 * shape.classes)
        one_pass = in_pass * (len(shape.used_channels) * padded * 12 + self.members * tokens * 8 * per_token)
        return one_pass + windows * self.members * tokens * 16 * (shape.experts + 2) * (shape.classes + 2)

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

    def _context(self) -> Float64:
        """(G, Y)"""
        return np.asarray(self._net.context().detach().double().cpu().numpy())

    def _prepare(self, cases: Cases) -> Series:
        return prepare(self._net.shape.select_channels(cases), self.geometry, self._device)

    def _passes(self, cases: Cases) -> Iterator[Cases]:
        size = self._cases_per_pass(cases.steps)
        if len(cases) <= size:
            return iter((cases,))
        return (cases.subset(slice(start, start + size)) for start in range(0, len(cases), size))

    def _cases_per_pass(self, steps: int) -> int:
        entries = self.members * self._net.shape.read_channels * steps
        return max(1, min(CASES_PER_PASS, ENTRIES_PER_PASS // entries))

    def _member_output(self, output: CommitteeOutput, member: int, bounds: tuple[Int64, Int64]) -> SourceOutput:
        logits, values, expert_values, weight, reliability = (part[member] for part in output)
        shape = self._net.shape
        evidence = SourceEvidence(
            name=f"m{member}",
            # Members that read other channels are projected one by one: they do not share their bounds.
            start=bounds[0].copy() if shape.read else bounds[0],
            stop=bounds[1],
            terms=tuple((channel,) for channel in shape.channels_of(member)),
            values=values,
            experts=(*(f"e{expert}" for expert in range(shape.experts)), LEVEL),
            expert_values=expert_values,
            weight=_with_level(weight, shape.read_channels),
            reliability=_with_level(reliability, shape.read_channels),
        )
        return SourceOutput(logits, np.tile(self._context()[member], (len(logits), 1)), evidence)

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


@lru_cache(maxsize=_CACHED)
def unit_bounds(geometry: Geometry, steps: int) -> tuple[Int64, Int64]:
    """Of the tokens, then of the whole window, which the levels are evidence of."""
    start, stop = geometry.bounds(steps)
    return np.append(start, 0), np.append(stop, steps)


def _with_level(gate: Float64, channels: int) -> Float64:
    """(B, U, K, E) from (B, P, M): all channels are routed together.

    NaN for the level, which no gate decides on, and for the whole window, which no expert does.
    """
    every = np.pad(gate, ((0, 0), (0, 1), (0, 1)), constant_values=np.nan)[:, :, None]
    return np.broadcast_to(every, (*every.shape[:2], channels, every.shape[3]))
