"""What a model says about windows, as one value: scores, probabilities and the patches that add up to them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from anchormoe.calibration import softmax
from anchormoe.cases import Bool, Float64, Int64
from anchormoe.evidence import SourceEvidence, SourceOutput, project, project_mean, residual

Grid = tuple[Int64, Int64]
"""Starts and stops (P,) of the patches."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """B windows, Y classes, P patches, E experts. context + contributions.sum(1) == logits; softmax(logits) is p."""

    logits: Float64
    """(B, Y) calibrated, pooled independently of the contributions"""
    probabilities: Float64
    """(B, Y)"""
    context: Float64
    """(B, Y) what has no place in time"""
    starts: Int64
    """(P,)"""
    stops: Int64
    """(P,)"""
    contributions: Float64
    """(B, P, Y)"""
    experts: tuple[str, ...]
    """`kernel`, `m0/e1` …"""
    expert_contributions: Float64
    """(B, P, E) for the arg-max class; sums over E to its contributions"""
    weight: Float64
    """(B, P, E), NaN where an expert has none"""
    reliability: Float64
    """(B, P, E), NaN where an expert has none"""
    admission: Float64
    """(B, P), NaN where there is none"""
    far_share: Float64
    """(B, P) share of the arg-max class's evidence from kernels that look further than max(33, T/4) steps"""
    residual: Float64
    """(B,) how far the identity is off"""
    abstention: tuple[str | None, ...]
    """None, or the name of the rule by which the state is `unknown`"""
    label: Int64
    """(B,) arg-max class, also where the model abstains"""

    def __len__(self) -> int:
        return len(self.logits)


_PER_PATCH_GRID = ("starts", "stops", "experts")


@dataclass(frozen=True, slots=True)
class Weighted:
    """An output and the factor with which all of it enters the published logit."""

    factor: float
    output: SourceOutput

    @property
    def units(self) -> Grid:
        return self.output.evidence.start, self.output.evidence.stop


def compose(parts: Sequence[Weighted], bias: Float64, grid: Grid, valid: Bool) -> Prediction:
    """All sources on one patch grid; `valid` is (B, T). Abstention is left open: nobody abstains."""
    logits = sum((part.factor * part.output.logits for part in parts), np.zeros_like(bias)) + bias
    context = sum((part.factor * part.output.context for part in parts), np.zeros_like(bias)) + bias
    label = np.asarray(logits.argmax(axis=1), np.int64)
    patches = [project(part.factor * part.output.evidence.values, part.units, grid, valid) for part in parts]
    contributions = np.asarray(sum(patches))
    return Prediction(
        logits=logits,
        probabilities=softmax(logits),
        context=context,
        starts=grid[0],
        stops=grid[1],
        contributions=contributions,
        experts=tuple(name for part in parts for name in expert_names(part.output.evidence)),
        expert_contributions=_joined([_by_expert(part, label, grid, valid) for part in parts]),
        weight=_joined([_gate(part.output.evidence, "weight", grid, valid) for part in parts]),
        reliability=_joined([_gate(part.output.evidence, "reliability", grid, valid) for part in parts]),
        admission=_admission(parts, grid, valid),
        far_share=_far_share(parts, label, grid, valid),
        residual=residual(logits, context, contributions),
        abstention=(None,) * len(logits),
        label=label,
    )


def expert_names(evidence: SourceEvidence) -> list[str]:
    """A lone expert that bears its source's name is called by it; the others are `source/expert`."""
    if evidence.experts == (evidence.name,):
        return [evidence.name]
    return [f"{evidence.name}/{expert}" for expert in evidence.experts]


def concatenated(predictions: Sequence[Prediction], count: int) -> Prediction:
    """The first `count` windows of predictions that share grid and experts."""
    values = {}
    for one in fields(Prediction):
        parts = [getattr(prediction, one.name) for prediction in predictions]
        if one.name in _PER_PATCH_GRID:
            values[one.name] = parts[0]
        elif one.name == "abstention":
            values[one.name] = tuple(rule for part in parts for rule in part)[:count]
        else:
            values[one.name] = np.concatenate(parts)[:count]
    return Prediction(**values)


def of_class(values: Float64, label: Int64) -> Float64:
    """The given class of each window: (B, …, Y) to (B, …)."""
    index = label.reshape(-1, *[1] * (values.ndim - 1))
    return np.asarray(np.take_along_axis(values, index, axis=-1)[..., 0])


def _by_expert(part: Weighted, label: Int64, grid: Grid, valid: Bool) -> Float64:
    evidence = part.output.evidence
    lone = evidence.values[:, :, None] if evidence.expert_values is None else evidence.expert_values
    return project(part.factor * of_class(lone, label), part.units, grid, valid)  # (B, P, E)


def _gate(evidence: SourceEvidence, name: str, grid: Grid, valid: Bool) -> Float64:
    values: Float64 | None = getattr(evidence, name)
    if values is None:
        return np.full((len(valid), len(grid[0]), len(evidence.experts)), np.nan)
    return project_mean(values, (evidence.start, evidence.stop), grid, valid.shape[1])


def _admission(parts: Sequence[Weighted], grid: Grid, valid: Bool) -> Float64:
    """The mean over the sources that admit patches."""
    known = [
        project_mean(part.output.evidence.admission, part.units, grid, valid.shape[1])
        for part in parts
        if part.output.evidence.admission is not None
    ]
    return np.asarray(np.mean(known, axis=0)) if known else np.full((len(valid), len(grid[0])), np.nan)


def _far_share(parts: Sequence[Weighted], label: Int64, grid: Grid, valid: Bool) -> Float64:
    far, total = np.zeros((len(valid), len(grid[0]))), np.zeros((len(valid), len(grid[0])))
    for part in parts:
        values = part.factor * of_class(part.output.evidence.values, label)
        distant = part.output.evidence.far
        reaching = np.zeros_like(values) if distant is None else part.factor * of_class(distant, label)
        far += project(np.abs(reaching), part.units, grid, valid)
        total += project(np.abs(reaching) + np.abs(values - reaching), part.units, grid, valid)
    return np.asarray(np.where(total > 0, np.clip(far / np.where(total > 0, total, 1), 0, 1), 0))


def _joined(parts: Sequence[NDArray[np.float64]]) -> Float64:
    return np.concatenate(parts, axis=2)
