"""What a model says about windows, as one value: scores, probabilities and the patches that add up to them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from anchormoe.calibration import softmax
from anchormoe.cases import Bool, Float64, Int64
from anchormoe.evidence import SourceEvidence, SourceOutput, residual
from anchormoe.projection import Projection

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
    shown = [
        _shown(part, label, projection)
        for part, projection in zip(parts, _projections(parts, grid, valid), strict=True)
    ]
    contributions = np.asarray(sum(one.contributions for one in shown))
    return Prediction(
        logits=logits,
        probabilities=softmax(logits),
        context=context,
        starts=grid[0],
        stops=grid[1],
        contributions=contributions,
        experts=tuple(name for part in parts for name in expert_names(part.output.evidence)),
        expert_contributions=np.concatenate([one.by_expert for one in shown], axis=2),
        weight=np.concatenate([one.weight for one in shown], axis=2),
        reliability=np.concatenate([one.reliability for one in shown], axis=2),
        admission=_mean_admission(shown),
        far_share=_far_share(shown),
        residual=residual(logits, context, contributions),
        abstention=(None,) * len(logits),
        label=label,
    )


def _projections(parts: Sequence[Weighted], grid: Grid, valid: Bool) -> list[Projection]:
    """One for each part; a committee's members have the same units, so they share theirs."""
    made: dict[int, Projection] = {}
    return [made.setdefault(id(part.units[0]), Projection(part.units, grid, valid)) for part in parts]


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


@dataclass(frozen=True, slots=True)
class _Shown:
    """One source on the patch grid; all but `contributions` (B, P, Y) and the gates are about the arg-max class."""

    contributions: Float64
    by_expert: Float64
    """(B, P, E)"""
    far: Float64
    """(B, P) |evidence| from afar"""
    total: Float64
    """(B, P) |evidence| from afar and from near"""
    weight: Float64
    reliability: Float64
    admission: Float64 | None


def _shown(part: Weighted, label: Int64, projection: Projection) -> _Shown:
    evidence, classes = part.output.evidence, part.output.logits.shape[1]
    winning = of_class(evidence.values, label)  # (B, U)
    experts = winning[:, :, None] if evidence.expert_values is None else of_class(evidence.expert_values, label)
    far = np.zeros_like(winning) if evidence.far is None else of_class(evidence.far, label)
    sizes = np.abs(np.stack((far, winning - far), axis=2))
    sums = part.factor * projection.sums(np.concatenate((evidence.values, experts, sizes), axis=2))
    from_afar, from_near = np.abs(sums[:, :, -2]), np.abs(sums[:, :, -1])
    return _Shown(
        contributions=sums[:, :, :classes],
        by_expert=sums[:, :, classes:-2],
        far=from_afar,
        total=from_afar + from_near,
        weight=_gate(evidence.weight, evidence, projection),
        reliability=_gate(evidence.reliability, evidence, projection),
        admission=None if evidence.admission is None else projection.means(evidence.admission[:, :, None])[:, :, 0],
    )


def _gate(values: Float64 | None, evidence: SourceEvidence, projection: Projection) -> Float64:
    if values is not None:
        return projection.means(values)
    return np.full((len(projection.valid), len(projection.grid[0]), len(evidence.experts)), np.nan)


def _mean_admission(shown: Sequence[_Shown]) -> Float64:
    """Over the sources that admit patches."""
    known = [one.admission for one in shown if one.admission is not None]
    return np.asarray(np.mean(known, axis=0)) if known else np.full(shown[0].far.shape, np.nan)


def _far_share(shown: Sequence[_Shown]) -> Float64:
    far, total = sum(one.far for one in shown), np.asarray(sum(one.total for one in shown))
    return np.asarray(np.where(total > 0, far / np.where(total > 0, total, 1), 0))
