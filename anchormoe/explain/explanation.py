"""The explanation of one window's score as a value: time × channel evidence, the sums it makes, experts, examples."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anchormoe.bundle.config import BundleConfig
from anchormoe.cases import Bool, Cases, Float32, Float64
from anchormoe.evidence import Term
from anchormoe.explain.doubt import Doubt
from anchormoe.explain.outside import Outside, furthest_outside
from anchormoe.explain.spans import TermSpan, strongest_spans
from anchormoe.metrics.cancellation import cancellation
from anchormoe.model.judgement import IMPLAUSIBLE, Finding
from anchormoe.model.prediction import Prediction
from anchormoe.predictor import Predictor
from anchormoe.profiles.build import furthest_channel
from anchormoe.profiles.examples import Example, Place, SpanToCompare
from anchormoe.profiles.names import family_of
from anchormoe.profiles.normal import NormalRange
from anchormoe.profiles.profile import ExpertProfiles

OUT_OF_DISTRIBUTION = "out_of_distribution"
SHOWN_SPANS = 7
MARGIN_SPANS = 5


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a window comes from, in words, and the time of its first step; None where only steps are known."""

    words: str = ""
    start_ns: int | None = None
    train_case: int | None = None
    """its number in TRAIN, so that it is not its own example"""
    recording: str | None = None
    """its name as in training; what TRAIN has of the same time is no example either"""


@dataclass(frozen=True, slots=True)
class Span:
    """Steps [start, stop) of a term, what they add, which expert added most of it, and a TRAIN segment like it."""

    term: Term
    channel: int
    """of a set, the channel furthest from normal"""
    start: int
    stop: int
    value: float
    expert: str = ""
    example: Example | None = None
    family: str = ""
    """what the expert looks at: level, spread, change; empty: shapes"""


@dataclass(frozen=True, slots=True)
class Sum:
    """total = context + spans + remainder, for the score of a class or for the margin between two."""

    context: float
    spans: tuple[Span, ...]
    remainder: float
    total: float


@dataclass(frozen=True, slots=True)
class Expert:
    """Summed over the window; weight and reliability are means over the units where it was used, or None."""

    name: str
    title: str
    contribution: float
    weight: float | None
    reliability: float | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The arg-max class of one window: logit = context + Σ evidence (T, K)."""

    config: BundleConfig
    origin: Origin
    normal: NormalRange
    window: Float32
    """(C, T) raw"""
    mask: Bool
    """where a measurement arrived that the model got"""
    label: int
    runner_up: int
    truth: str | None
    probabilities: Float64
    logits: Float64
    terms: tuple[Term, ...]
    evidence: Float64
    """(T, K) for the label"""
    score: Sum
    margin: Sum
    """over the runner-up"""
    experts: tuple[Expert, ...]
    profiles: ExpertProfiles | None
    abstention: str | None
    residual: float
    findings: tuple[Finding, ...] = ()
    """samples that cannot be measurements, which the model did not get"""
    outside: tuple[Outside, ...] = ()
    """the channels that made the window `unknown` by `out_of_distribution`"""
    sentence: str = ""
    """for a person; made of the facts above"""

    @property
    def state(self) -> str:
        return self.config.classes[self.label]

    @property
    def rival(self) -> str:
        return self.config.classes[self.runner_up]

    @property
    def logit(self) -> float:
        return self.score.total

    @property
    def context(self) -> float:
        return self.score.context

    @property
    def by_term(self) -> Float64:
        """(K,) over the whole window"""
        return np.asarray(self.evidence.sum(axis=0))

    @property
    def cancellation(self) -> float | None:
        """(Σ |evidence| + |context|) / |logit| over patch strides: 1 if nothing cancels; None if all does."""
        parts = np.add.reduceat(self.evidence.sum(axis=1), np.arange(0, len(self.evidence), self.config.patch_stride))
        found = float(cancellation(parts[None], np.array([self.context]), np.array([self.logit]))[0])
        return found if np.isfinite(found) else None

    @property
    def missing(self) -> dict[int, float]:
        """Channel to the share of its steps without a value, for those that lack any, most first."""
        share = 1 - self.mask.mean(axis=1)
        order = np.argsort(-share, kind="stable")
        return {int(channel): float(share[channel]) for channel in order if share[channel] > 0}

    def share(self, contribution: float) -> float:
        """Of |context| + Σ |evidence| by step and term."""
        total = abs(self.context) + float(np.abs(self.evidence).sum())
        return abs(contribution) / total if total else 0.0

    def to_dict(self) -> dict[str, Any]:
        """JSON: everything but the arrays of steps."""
        names = self.config.classes
        return {
            "model": {"name": self.config.name, "version": self.config.version, "digest": self.config.digest},
            "origin": self.origin.words,
            "sentence": self.sentence,
            "state": self.state,
            "truth": self.truth,
            "abstention": self.abstention,
            "probabilities": dict(zip(names, self.probabilities.tolist(), strict=True)),
            "logits": dict(zip(names, self.logits.tolist(), strict=True)),
            "logit": self.logit,
            "score": self._sum_dict(self.score),
            "why_not": {"class": self.rival, **self._sum_dict(self.margin)},
            "channels": [
                {"channels": [self.config.channels[one] for one in term], "contribution": float(value)}
                for term, value in zip(self.terms, self.by_term, strict=True)
            ],
            "experts": [
                {"name": one.name, "title": one.title, "contribution": one.contribution, "weight": one.weight,
                 "reliability": one.reliability}
                for one in self.experts
            ],
            "outside_training": [
                {"channel": self.config.channels[one.channel], "value": one.value, "low": one.low, "high": one.high,
                 "share": one.share}
                for one in self.outside
            ],
            "implausible": [
                {"channel": self.config.channels[one.channel], "finding": one.kind, "first": one.first,
                 "last": one.last, "samples": one.count, "value": one.value}
                for one in self.findings
            ],
            "missing": {self.config.channels[channel]: share for channel, share in self.missing.items()},
            "cancellation": self.cancellation,
            "residual": self.residual,
        }  # fmt: skip

    def _sum_dict(self, one: Sum) -> dict[str, Any]:
        spans = [self._span_dict(span) for span in one.spans]
        return {"context": one.context, "spans": spans, "remainder": one.remainder, "total": one.total}

    def _span_dict(self, span: Span) -> dict[str, Any]:
        example = span.example
        return {
            "channels": [self.config.channels[one] for one in span.term],
            "start": span.start,
            "stop": span.stop,
            "contribution": span.value,
            "expert": span.expert or None,
            "example": None if example is None else {
                "class": self.config.classes[example.label], "recording": example.recording, "case": example.case,
                "start": example.start, "stop": example.stop, "distance": example.distance,
            },
        }  # fmt: skip


def explain_case(
    predictor: Predictor,
    case: Cases,
    *,
    truth: str | None = None,
    origin: Origin | None = None,
    doubt: Doubt | None = None,
) -> Explanation:
    """Explains the first of the raw cases. Where it lacks samples that arrived, `doubt` says which and why."""
    from anchormoe.explain.words import sentence

    first = case.subset(slice(0, 1))
    one, found = first.resized(predictor.config.length), predictor.predict_cases(first)
    origin = origin or Origin()
    label = int(found.label[0])
    runner_up = int(next((at for at in np.argsort(-found.logits[0], kind="stable") if at != label), label))
    steps = predictor.steps(first)
    of_class = steps.values[0, :, :, label]
    measured = one.mask[0] if doubt is None else one.mask[0] & ~doubt.unused
    window = _Window(predictor, one, measured, found, steps.terms, steps.values[0], origin)
    undecided = doubt is not None and doubt.undecided
    explanation = Explanation(
        config=predictor.config,
        origin=origin,
        normal=predictor.normal,
        window=one.x[0],
        mask=measured,
        label=label,
        runner_up=runner_up,
        truth=truth,
        probabilities=found.probabilities[0],
        logits=found.logits[0],
        terms=steps.terms,
        evidence=of_class,
        score=window.sum_up(of_class, float(found.context[0, label]), float(found.logits[0, label]), SHOWN_SPANS, True),
        margin=window.sum_up(
            of_class - steps.values[0, :, :, runner_up],
            float(found.context[0, label] - found.context[0, runner_up]),
            float(found.logits[0, label] - found.logits[0, runner_up]),
            MARGIN_SPANS,
            False,
        ),
        experts=_experts(found, predictor),
        profiles=predictor.experts,
        abstention=IMPLAUSIBLE if undecided else found.abstention[0],
        residual=float(found.residual[0]),
        findings=() if doubt is None else doubt.findings,
    )
    if explanation.abstention == OUT_OF_DISTRIBUTION:
        values = np.where(explanation.mask, explanation.window, np.float32(np.nan))
        explanation = replace(explanation, outside=furthest_outside(values, predictor.usual_range))
    return replace(explanation, sentence=sentence(explanation))


@dataclass(frozen=True, slots=True)
class _Window:
    """What is needed to turn spans of terms into spans with their channel, expert and example."""

    predictor: Predictor
    one: Cases
    measured: Bool
    """(C, T) without what stands in for lost samples"""
    found: Prediction
    terms: tuple[Term, ...]
    steps: Float64
    """(T, K, Y)"""
    origin: Origin

    def sum_up(self, steps: Float64, context: float, total: float, most: int, with_experts: bool) -> Sum:
        """The remainder is what is left of the independently pooled total."""
        chosen = strongest_spans(steps, cell=self.predictor.config.patch_stride, most=most)
        spans = []
        for span in chosen:
            term = self.terms[span.term]
            expert = self._leading_expert(span.term, (span.start, span.stop), span.value) if with_experts else None
            channel = self._channel(term, (span.start, span.stop))
            example = None if expert is None else self._example(expert, span, channel)
            title = "" if expert is None else self._title(expert)
            family = "" if expert is None else family_of(self.found.experts[expert])
            spans.append(Span(term, channel, span.start, span.stop, span.value, title, example, family))
        return Sum(context, tuple(spans), total - context - sum(span.value for span in spans), total)

    def _title(self, expert: int) -> str:
        name = self.found.experts[expert]
        return self.predictor.expert_names.get(name, name)

    def _channel(self, term: Term, steps: tuple[int, int]) -> int:
        normal, scale = self.predictor.normal, self.predictor.model.normalizer.scale
        return furthest_channel(term, self.one.x[0], self.one.mask[0], steps, normal.mean, scale)

    def _leading_expert(self, term: int, steps: tuple[int, int], value: float) -> int | None:
        """The one that added most in these steps, in the direction of their sum; patches count by their overlap."""
        found = self.found
        place = found.terms.index(self.terms[term])
        common = np.minimum(found.stops, steps[1]) - np.maximum(found.starts, steps[0])
        share = np.maximum(common, 0) / (found.stops - found.starts)
        total = share @ found.expert_evidence[0, :, place]
        return int(np.argmax(total if value > 0 else -total)) if len(total) else None

    def _example(self, expert: int, span: TermSpan, channel: int) -> Example | None:
        index, part = self.predictor.examples, slice(span.start, span.stop)
        if index is None or not self.measured[channel, part].any():
            return None
        own = SpanToCompare(
            self.one.x[0, channel, part],
            self.one.mask[0, channel, part],
            span.value,
            self.steps[part, span.term].sum(axis=0),
        )
        return index.nearest(
            self.found.experts[expert], channel, own, other_than=self.origin.train_case, elsewhere=self._place()
        )

    def _place(self) -> Place | None:
        origin, config = self.origin, self.predictor.config
        if origin.recording is None or origin.start_ns is None or config.period_ns is None:
            return None
        stop_ns = origin.start_ns + config.length * config.period_ns
        return Place(origin.recording, origin.start_ns, stop_ns, config.period_ns)


def _experts(found: Prediction, predictor: Predictor) -> tuple[Expert, ...]:
    rows = [
        Expert(
            name,
            predictor.expert_names.get(name, name),
            float(found.expert_contributions[0, :, index].sum()),
            _mean(found.weight[0, ..., index]),
            _mean(found.reliability[0, ..., index], found.weight[0, ..., index]),
        )
        for index, name in enumerate(found.experts)
    ]
    return tuple(sorted(rows, key=lambda one: -abs(one.contribution)))


def _mean(values: Float64, weight: Float64 | None = None) -> float | None:
    """Over patches and terms that have a value; with `weight` only over those where the expert was used."""
    known = ~np.isnan(values) if weight is None or np.isnan(weight).all() else ~np.isnan(values) & (weight > 0)
    return float(values[known].mean()) if known.any() else None
