"""A fitted committee as a source of evidence: one output per member, with exact contributions of its tokens."""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.evidence import Json, SourceEvidence, SourceOutput
from anchormoe.experts.fused_weights import centre_classes
from anchormoe.experts.geometry import Geometry
from anchormoe.experts.serialization import read_weights, shape_config
from anchormoe.experts.shape import CommitteeOutput, NetShape, Weights
from anchormoe.simd.backend import Backend, choose_backend

LEVEL = "level"
"""Name of the expert for the medians and means of the channels."""
CASES_PER_PASS = 32
"""At most; a case's result does not depend on the others in its pass."""
ENTRIES_PER_PASS = 8_000_000
"""Values read for all members: a pass has fewer cases if they have many channels or steps."""
_CACHED = 32
_EPSILON = 1e-8


class Committee:
    """Several members in one network. `forward` returns one output per member, named m0, m1, …"""

    def __init__(self, shape: NetShape, weights: Weights, *, device: str = "cpu") -> None:
        self.shape = shape
        self.device = device
        self._weights = weights
        self._context = centre_classes(weights["bias"]).astype(np.float64)  # (G, Y)
        self.backend = choose_backend(device.partition(":")[0], has_numba_code=shape.has_numba_code)
        self._serving = _serving_net(shape, weights, self.backend, device)

    @property
    def members(self) -> int:
        return self.shape.members

    @property
    def geometry(self) -> Geometry:
        return self.shape.geometry

    def to(self, device: str) -> "Committee":
        return self if str(device) == self.device else Committee(self.shape, self._weights, device=str(device))

    @property
    def anchors(self) -> Float64:
        """(G, M, D) posterior anchors: the mean TRAIN token of each expert, weighted by its routing."""
        return self._weights["anchors"].astype(np.float64)

    @property
    def anchor_cosines(self) -> Float64:
        """(G, M, M) how alike what the experts of a member are given is: 1 for the same, 0 for unrelated tokens."""
        unit = self.anchors / (np.linalg.norm(self.anchors, axis=-1, keepdims=True) + _EPSILON)
        return np.asarray(np.matmul(unit, np.swapaxes(unit, -1, -2)))

    def forward(self, cases: Cases) -> list[SourceOutput]:
        self._require_channels(cases)
        passes = [self._serving.forward(self.shape.select_channels(part)) for part in self._passes(cases)]
        output = passes[0] if len(passes) == 1 else _concatenate(passes)
        bounds = unit_bounds(self.geometry, cases.steps)
        return [self._member_output(output, member, bounds) for member in range(self.members)]

    def logits(self, cases: Cases, progress: Callable[[int], None] = lambda done: None) -> Float64:
        """(G, N, Y), without the explanation; `progress` is given the number of cases done."""
        logits = np.empty((self.members, len(cases), self.shape.classes))
        done = 0
        for part in self._passes(cases):
            logits[:, done : done + len(part)] = self._serving.logits(self.shape.select_channels(part))
            done += len(part)
            progress(done)
        return logits

    def peak_bytes(self, windows: int, steps: int) -> int:
        """Padded series; one pass: what tokens read and the experts' outputs; the values of all windows."""
        shape, geometry = self.shape, self.geometry
        tokens = shape.read_channels * geometry.positions(steps)
        padded = geometry.coarse_steps(steps) * geometry.pool + geometry.kernel
        in_pass = min(windows, self._cases_per_pass(steps))
        per_token = geometry.kernel + shape.width + shape.experts * (2 * shape.value_width + 2 * shape.classes)
        one_pass = in_pass * (len(shape.used_channels) * padded * 12 + self.members * tokens * 8 * per_token)
        return one_pass + windows * self.members * tokens * 16 * (shape.experts + 2) * (shape.classes + 2)

    def tensors(self) -> dict[str, NDArray[Any]]:
        return dict(self._weights)

    def config(self) -> dict[str, Json]:
        return shape_config(self.shape)

    @classmethod
    def from_parts(cls, config: Mapping[str, Json], tensors: Mapping[str, NDArray[Any]]) -> "Committee":
        return cls(*read_weights(config, tensors))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its configuration and tensors: another machine may use another backend."""
        return type(self).from_parts, (self.config(), self.tensors())

    def _passes(self, cases: Cases) -> Iterator[Cases]:
        size = self._cases_per_pass(cases.steps)
        if len(cases) <= size:
            return iter((cases,))
        return (cases.subset(slice(start, start + size)) for start in range(0, len(cases), size))

    def _cases_per_pass(self, steps: int) -> int:
        entries = self.members * self.shape.read_channels * steps
        return max(1, min(CASES_PER_PASS, ENTRIES_PER_PASS // entries))

    def _member_output(self, output: CommitteeOutput, member: int, bounds: tuple[Int64, Int64]) -> SourceOutput:
        logits, values, expert_values, weight, reliability = (part[member] for part in output)
        shape = self.shape
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
        return SourceOutput(logits, np.tile(self._context[member], (len(logits), 1)), evidence)

    def _require_channels(self, cases: Cases) -> None:
        if cases.channels != self.shape.channels:
            raise ModelError(
                f"the experts were trained on {self.shape.channels} channels, the data have {cases.channels}"
            )


class _ServingNet(Protocol):
    """A committee's network for inference, given cases with the channels that any member reads."""

    def forward(self, cases: Cases) -> CommitteeOutput: ...

    def logits(self, cases: Cases) -> Float64: ...


def _serving_net(shape: NetShape, weights: Weights, backend: Backend, device: str) -> _ServingNet:
    """The backends agree within rounding. Each of them imports numba or torch, and only one is needed."""
    if backend == "torch":
        from anchormoe.experts.torch_backend import TorchCommittee

        return TorchCommittee(shape, weights, device)
    from anchormoe.experts.numba_backend import NumbaCommittee

    return NumbaCommittee(shape, weights)


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
