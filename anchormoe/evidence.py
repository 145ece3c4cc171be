"""The common representation of evidence: units of every source, and their sums by step, interval and span. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Bool, Cases, Float64, Int64

Term = tuple[int, ...]
"""The channels that a piece of evidence read: one, or a set read together."""
Json = Any
"""What `json.dumps` accepts: dict, list, str, int, float, bool, None."""


@dataclass(frozen=True, slots=True)
class SourceEvidence:
    """What each native unit (patch, token or step) and term of one source adds to each class."""

    name: str
    start: Int64
    """(U,)"""
    stop: Int64
    """(U,) the unit is [start, stop)"""
    terms: tuple[Term, ...]
    """K terms: the channels that each column of the values read"""
    values: Float64
    """(B, U, K, Y)"""
    experts: tuple[str, ...]
    expert_values: Float64 | None = None
    """(B, U, K, E, Y), sums over E to values; None when there is one expert only"""
    weight: Float64 | None = None
    """(B, U, K, E)"""
    reliability: Float64 | None = None
    """(B, U, K, E)"""
    admission: Float64 | None = None
    """(B, U)"""
    far: Float64 | None = None
    """(B, U, K, Y) the part of `values` from kernels that span more than max(33, T/4) steps"""


@dataclass(frozen=True, slots=True)
class SourceOutput:
    """logits (B, Y), pooled independently of the units; context (B, Y); logits == context + sum of units and terms."""

    logits: Float64
    context: Float64
    evidence: SourceEvidence


class Source(Protocol):
    """A fitted source of evidence; its input are normalized cases."""

    def forward(self, cases: Cases) -> SourceOutput | list[SourceOutput]:
        """Inference with explanation; a committee gives one output per member.

        No NaN for any finite or fully masked input. Padding changes nothing. The result for a case is bitwise
        independent of the other cases in the batch and of their number.
        """
        ...

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Flat names, for model.safetensors."""
        ...

    def config(self) -> dict[str, Json]:
        """For config.json."""
        ...

    @classmethod
    def from_parts(cls, config: Mapping[str, Json], tensors: Mapping[str, NDArray[Any]]) -> Self:
        """Strict inverse of `config` and `tensors`. Raises ModelError."""
        ...


def source_outputs(source: Source, cases: Cases) -> list[SourceOutput]:
    """One output per member of a committee, or a single one."""
    output = source.forward(cases)
    return output if isinstance(output, list) else [output]


def centred(values: Float64) -> Float64:
    """Without the mean over classes (the last axis)."""
    return np.asarray(values - values.mean(axis=-1, keepdims=True))


def residual(logits: Float64, context: Float64, values: Float64) -> Float64:
    """(B,) the largest difference between independently pooled logits and the sum of their parts (B, U, K, Y)."""
    return np.asarray(np.abs(logits - context - values.sum(axis=(1, 2))).max(axis=-1))


@dataclass(frozen=True, slots=True)
class StepEvidence:
    """The evidence of every step and term: values (N, T, K, Y)."""

    terms: tuple[Term, ...]
    values: Float64

    @property
    def over_time(self) -> Float64:
        """(N, T, Y)"""
        return np.asarray(self.values.sum(axis=2))


def all_terms(of_sources: Iterable[tuple[Term, ...]]) -> tuple[Term, ...]:
    """The terms of all sources, each once: single channels first, then sets, in the channels' order."""
    return tuple(sorted({term for terms in of_sources for term in terms}, key=lambda term: (len(term) > 1, term)))


def place_terms(values: Float64, own: tuple[Term, ...], terms: tuple[Term, ...], fill: float = 0.0) -> Float64:
    """A source's values (B, U, k, …) among the terms of all sources: (B, U, K, …), `fill` for those it lacks."""
    if own == terms:
        return values
    placed = np.full((*values.shape[:2], len(terms), *values.shape[3:]), fill)
    placed[:, :, [terms.index(term) for term in own]] = values
    return placed


def to_steps(values: Float64, start: Int64, stop: Int64, valid: Bool) -> Float64:
    """Units (B, U, …) divided equally among the valid steps they cover: (B, T, …). `valid` is (B, T).

    A unit that covers no valid step is divided among all its steps, so that the sum is kept.
    """
    covered = prefix_sums(valid.astype(np.float64))  # (B, T + 1)
    count = covered[:, stop] - covered[:, start]  # (B, U)
    shared = _spread(_like(1 / np.maximum(count, 1) * (count > 0), values) * values, start, stop, valid.shape[1])
    steps = np.where(_like(valid, shared), shared, 0)
    orphans = _like(count == 0, values) & (values != 0)
    if orphans.any():
        lengths = _like(np.broadcast_to(stop - start, count.shape).astype(np.float64), values)
        steps = steps + _spread(np.where(orphans, values / lengths, 0), start, stop, valid.shape[1])
    return np.asarray(steps)


def to_intervals(steps: Float64, start: Int64, stop: Int64) -> Float64:
    """Steps (B, T, …) summed over intervals: (B, P, …). A step in several intervals is divided equally among them."""
    share = 1 / np.maximum(overlaps(start, stop, steps.shape[1]), 1)  # (T,)
    prefix = prefix_sums(steps * share.reshape(1, -1, *[1] * (steps.ndim - 2)))
    return np.asarray(prefix[:, stop] - prefix[:, start])


def overlaps(start: Int64, stop: Int64, length: int) -> Int64:
    """(T,) how many of the intervals cover each step."""
    change = np.zeros(length + 1, np.int64)
    np.add.at(change, start, 1)
    np.add.at(change, stop, -1)
    return np.cumsum(change[:-1])


@dataclass(frozen=True, slots=True)
class Patching:
    """The patches in which evidence is published, in steps; stride <= length, so that no step is left out."""

    length: int
    stride: int

    @classmethod
    def for_steps(cls, steps: int) -> "Patching":
        """A sixteenth of the window, 2 to 32 steps, without overlap, so that evidence is shown where it is."""
        length = min(steps, max(2, min(32, steps // 16)))
        return cls(length, length)


def patch_grid(length: int, patch_length: int, stride: int) -> tuple[Int64, Int64]:
    """Starts and stops of the patches that cover [0, length); the last one ends there."""
    patch_length = min(patch_length, length)
    count = 1 + max(0, -(-(length - patch_length) // stride))
    start = np.arange(count, dtype=np.int64) * stride
    return start, np.minimum(start + patch_length, length)


@dataclass(frozen=True, slots=True)
class Span:
    """Steps [start, stop) whose contributions have the same sign, and their sum."""

    start: int
    stop: int
    value: float


def spans(steps: Float64) -> list[Span]:
    """The maximal runs of equal sign of one class's steps (T,), in time order; steps of exactly 0 belong to none."""
    sign = np.sign(steps)
    edges = np.flatnonzero(np.diff(np.concatenate(([0.0], sign, [0.0]))) != 0)
    return [Span(int(a), int(b), float(steps[a:b].sum())) for a, b in pairwise(edges) if sign[a] != 0]


def _spread(values: Float64, start: Int64, stop: Int64, length: int) -> Float64:
    """Adds each unit's value to every step it covers: (B, T, …)."""
    steps = np.zeros((values.shape[0], length, *values.shape[2:]))
    distinct = len(np.unique(start)) == len(start)
    for offset in range(int((stop - start).max(initial=0))):
        reaching = start + offset < stop
        if distinct:
            steps[:, start[reaching] + offset] += values[:, reaching]
        else:
            np.add.at(steps.swapaxes(0, 1), start[reaching] + offset, values[:, reaching].swapaxes(0, 1))
    return steps


def prefix_sums(values: Float64) -> Float64:
    """Running sums along axis 1 with a leading 0, so that an interval's sum is one subtraction."""
    zero = np.zeros((values.shape[0], 1, *values.shape[2:]))
    return np.concatenate((zero, np.cumsum(values, axis=1)), axis=1)


def _like(values: NDArray[Any], other: Float64) -> NDArray[Any]:
    return values.reshape(*values.shape, *[1] * (other.ndim - values.ndim))
