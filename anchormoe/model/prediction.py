"""The predictions for some windows: scores, probabilities, and the evidence that adds up to them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import groupby

import numpy as np

from anchormoe.cases import Bool, Float64, Int64
from anchormoe.evidence import SourceEvidence, SourceOutput, Term, all_terms, place_terms, residual
from anchormoe.model.calibration import softmax
from anchormoe.model.projection import Intervals, Projection


@dataclass(frozen=True, slots=True)
class Prediction:
    """B windows, Y classes, P patches, K terms, E experts.

    context + evidence.sum((1, 2)) == logits; softmax(logits) are the probabilities.
    """

    logits: Float64
    """(B, Y) calibrated, pooled independently of the contributions"""
    probabilities: Float64
    """(B, Y)"""
    context: Float64
    """(B, Y) the part of the logits that belongs to no patch"""
    starts: Int64
    """(P,)"""
    stops: Int64
    """(P,)"""
    terms: tuple[Term, ...]
    """the channels that each column of the evidence read: single ones first, then sets"""
    evidence: Float64
    """(B, P, K, Y)"""
    experts: tuple[str, ...]
    """`kernel`, `m0/e1` …"""
    expert_evidence: Float64
    """(B, P, K, E) for the arg-max class; sums over E to its evidence"""
    weight: Float64
    """(B, P, K, E), NaN where an expert has none"""
    reliability: Float64
    """(B, P, K, E), NaN where an expert has none"""
    admission: Float64
    """(B, P), NaN where there is none"""
    far_share: Float64
    """(B, P) share of the arg-max class's evidence from kernels that span more than max(33, T/4) steps"""
    residual: Float64
    """(B,) |logits − context − evidence| at most"""
    abstention: tuple[str | None, ...]
    """None, or the rule by which the state is `unknown`"""
    label: Int64
    """(B,) arg-max class, also where the model abstains"""

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def contributions(self) -> Float64:
        """(B, P, Y) of the patches, over all terms"""
        return np.asarray(self.evidence.sum(axis=2))

    @property
    def expert_contributions(self) -> Float64:
        """(B, P, E) for the arg-max class, over all terms"""
        return np.asarray(self.expert_evidence.sum(axis=2))


_PER_MODEL = ("starts", "stops", "terms", "experts")


@dataclass(frozen=True, slots=True)
class WeightedOutput:
    """An output, and the factor by which all of it is multiplied in the published logit."""

    factor: float
    output: SourceOutput

    @property
    def units(self) -> Intervals:
        return self.output.evidence.start, self.output.evidence.stop

    @property
    def names(self) -> tuple[str, ...]:
        return expert_names(self.output.evidence.name, self.output.evidence.experts)


def compose(parts: Sequence[WeightedOutput], bias: Float64, grid: Intervals, valid: Bool) -> Prediction:
    """All sources on one patch grid; `valid` is (B, T). Abstention is filled in later: here no window abstains."""
    logits = sum((part.factor * part.output.logits for part in parts), np.zeros_like(bias)) + bias
    context = sum((part.factor * part.output.context for part in parts), np.zeros_like(bias)) + bias
    label = np.asarray(logits.argmax(axis=1), np.int64)
    terms = all_terms(part.output.evidence.terms for part in parts)
    projected = [_project(own, label, Projection(own[0].units, grid, valid), terms) for own in _committees(parts)]
    evidence = np.asarray(sum(one.values for one in projected))
    return Prediction(
        logits=logits,
        probabilities=softmax(logits),
        context=context,
        starts=grid[0],
        stops=grid[1],
        terms=terms,
        evidence=evidence,
        experts=tuple(name for part in parts for name in part.names),
        expert_evidence=np.concatenate([one.by_expert for one in projected], axis=3),
        weight=np.concatenate([one.weight for one in projected], axis=3),
        reliability=np.concatenate([one.reliability for one in projected], axis=3),
        admission=_mean_admission(projected),
        far_share=_far_share(projected),
        residual=residual(logits, context, evidence),
        abstention=(None,) * len(logits),
        label=label,
    )


def _committees(parts: Sequence[WeightedOutput]) -> list[list[WeightedOutput]]:
    """Consecutive members of a committee share units and terms, so they are projected together."""
    return [list(own) for _, own in groupby(parts, key=lambda part: id(part.units[0]))]


@lru_cache(maxsize=64)
def expert_names(source: str, experts: tuple[str, ...]) -> tuple[str, ...]:
    """`source/expert`; only the name where the single expert of a source is named like it."""
    return experts if experts == (source,) else tuple(f"{source}/{expert}" for expert in experts)


def concatenate(predictions: Sequence[Prediction], count: int) -> Prediction:
    """The first `count` windows of predictions that share grid and experts."""
    if len(predictions) == 1 and len(predictions[0]) == count:
        return predictions[0]
    values = {}
    for one in fields(Prediction):
        parts = [getattr(prediction, one.name) for prediction in predictions]
        if one.name in _PER_MODEL:
            values[one.name] = parts[0]
        elif one.name == "abstention":
            values[one.name] = tuple(rule for part in parts for rule in part)[:count]
        else:
            values[one.name] = np.concatenate(parts)[:count]
    return Prediction(**values)


def take_class(values: Float64, label: Int64) -> Float64:
    """The given class of each window: (B, …, Y) to (B, …)."""
    return np.asarray(values[np.arange(len(values)), ..., label])


@dataclass(frozen=True, slots=True)
class _Projected:
    """A source or committee on the patch grid; all but `values` and the gates are of the arg-max class."""

    values: Float64
    """(B, P, K, Y)"""
    by_expert: Float64
    """(B, P, K, E)"""
    far: Float64 | None
    """(B, P) |evidence| from long-range kernels"""
    near: Float64
    """(B, P) |evidence| from the others"""
    weight: Float64
    """(B, P, K, E)"""
    reliability: Float64
    """(B, P, K, E)"""
    admissions: Float64
    """(B, P, A) of the A members with an admission gate"""


def _project(
    parts: Sequence[WeightedOutput], label: Int64, projection: Projection, terms: tuple[Term, ...]
) -> _Projected:
    evidences = [part.output.evidence for part in parts]
    own = evidences[0].terms
    values = np.asarray(sum(part.factor * part.output.evidence.values for part in parts))
    by_expert, sizes = _of_winner(parts, label)
    sums = projection.sums(np.concatenate((values, by_expert), axis=3))
    reach = np.abs(projection.sums(np.concatenate(sizes, axis=2)))
    weight, reliability, admissions = _gates(evidences, projection)
    classes = values.shape[3]
    return _Projected(
        values=place_terms(sums[..., :classes], own, terms),
        by_expert=place_terms(sums[..., classes:], own, terms),
        far=reach[:, :, -2] if len(sizes) == 2 else None,
        near=reach[:, :, -1],
        weight=place_terms(weight, own, terms, fill=np.nan),
        reliability=place_terms(reliability, own, terms, fill=np.nan),
        admissions=admissions,
    )


def _of_winner(parts: Sequence[WeightedOutput], label: Int64) -> tuple[Float64, list[Float64]]:
    """Evidence for the arg-max class by expert (B, U, K, E), and its size (B, U, 1): long-range if any, others."""
    picked = [part.factor * take_class(_by_expert(part.output.evidence), label) for part in parts]
    winning = [own.sum(axis=(2, 3))[:, :, None] for own in picked]
    by_expert = np.concatenate(picked, axis=3)
    if all(part.output.evidence.far is None for part in parts):
        return by_expert, [np.asarray(sum(np.abs(own) for own in winning))]
    far = [_long_range(part, label) for part in parts]
    near = sum(np.abs(own - beyond) for own, beyond in zip(winning, far, strict=True))
    return by_expert, [np.asarray(sum(np.abs(own) for own in far)), np.asarray(near)]


def _by_expert(evidence: SourceEvidence) -> Float64:
    """(B, U, K, E, Y)"""
    return evidence.values[:, :, :, None] if evidence.expert_values is None else evidence.expert_values


def _long_range(part: WeightedOutput, label: Int64) -> Float64:
    """(B, U, 1) of the arg-max class."""
    far = part.output.evidence.far
    return np.zeros((1, 1, 1)) if far is None else part.factor * take_class(far.sum(axis=2), label)[:, :, None]


def _gates(evidences: Sequence[SourceEvidence], projection: Projection) -> tuple[Float64, Float64, Float64]:
    """Weights and reliabilities (B, P, K, E), NaN where there are none, and the admissions (B, P, A)."""
    admissions = [one.admission[:, :, None] for one in evidences if one.admission is not None]
    weight, reliability = (_gate(projection, [getattr(one, name) for one in evidences], evidences) for name in _GATES)
    if not admissions:
        return weight, reliability, np.empty((*weight.shape[:2], 0))
    return weight, reliability, projection.means(np.concatenate(admissions, axis=2))


_GATES = ("weight", "reliability")


def _gate(projection: Projection, given: Sequence[Float64 | None], evidences: Sequence[SourceEvidence]) -> Float64:
    shapes = [(*one.values.shape[:3], len(one.experts)) for one in evidences]
    if all(values is None for values in given):
        experts = sum(shape[3] for shape in shapes)
        return np.full((shapes[0][0], len(projection.grid[0]), shapes[0][2], experts), np.nan)
    filled = [np.full(shape, np.nan) if values is None else values for values, shape in zip(given, shapes, strict=True)]
    return projection.means(np.concatenate(filled, axis=3))


def _mean_admission(projected: Sequence[_Projected]) -> Float64:
    """Over the sources with an admission gate."""
    admissions = np.concatenate([one.admissions for one in projected], axis=2)
    return np.asarray(admissions.mean(axis=2)) if admissions.shape[2] else np.full(projected[0].near.shape, np.nan)


def _far_share(projected: Sequence[_Projected]) -> Float64:
    far = np.asarray(sum(0 if one.far is None else one.far for one in projected))
    total = np.asarray(far + sum(one.near for one in projected))
    return np.asarray(np.where(total > 0, far / np.where(total > 0, total, 1), 0))
