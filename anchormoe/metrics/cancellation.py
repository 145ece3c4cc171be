"""Cancellation: how much larger the parts of a score are than the score they add up to. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from anchormoe.cases import Float64
from anchormoe.model.prediction import Prediction, take_class

MEDIAN_BOUND, P90_BOUND = 1.5, 3.0
"""What a model should keep over its cases, by patch."""


def cancellation(contributions: Float64, context: Float64, logit: Float64) -> Float64:
    """(B,) (Σ |contributions| + |context|) / |logit| of one class: 1 where nothing cancels.

    `contributions` (B, …) are all that add up to `logit` (B,) with `context` (B,): patches, spans, patches × channels.
    Infinite where parts cancel to exactly 0; 1 where all of them are 0.
    """
    parts = np.abs(contributions).reshape(len(contributions), -1).sum(axis=1) + np.abs(context)
    return _ratio(parts, np.abs(logit), empty=1.0)


def context_share(context: Float64, logit: Float64) -> Float64:
    """(B,) |context| / |logit|; 0 where both are 0."""
    return _ratio(np.abs(context), np.abs(logit), empty=0.0)


def surely_keeps_bounds(values: Float64) -> bool:
    """Whether median and p90 of the cancellation are within the bounds, judged by a sample of cases (B,).

    Each is taken one standard error of its rank further up: of 36 cases the second largest stands for p90.
    """
    count = len(values)
    shares = (share + np.sqrt(share * (1 - share) / count) for share in (0.5, 0.9))
    return _within(*(_quantile(values, min(1.0, float(share))) for share in shares))


@dataclass(frozen=True, slots=True)
class CancellationSummary:
    """Over cases, of the predicted class; None where it is infinite."""

    median: float | None
    """over patches"""
    p90: float | None
    channel_median: float | None
    """over patches and channels, or sets of channels that were read together"""
    channel_p90: float | None
    context_share: float | None
    """median"""
    cases: int

    @property
    def bounds_kept(self) -> bool:
        """Whether median and p90 over patches are at most 1.5 and 3."""
        return _within(self.median, self.p90)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"bounds_kept": self.bounds_kept}


def summarize_cancellation(prediction: Prediction) -> CancellationSummary:
    """Of the predicted class of every case."""
    label = prediction.label
    context, logit = take_class(prediction.context, label), take_class(prediction.logits, label)
    evidence = take_class(prediction.evidence, label)  # (B, P, K)
    by_patch = cancellation(np.asarray(evidence.sum(axis=2)), context, logit)
    by_channel = cancellation(evidence, context, logit)
    return CancellationSummary(
        median=_quantile(by_patch, 0.5),
        p90=_quantile(by_patch, 0.9),
        channel_median=_quantile(by_channel, 0.5),
        channel_p90=_quantile(by_channel, 0.9),
        context_share=_quantile(context_share(context, logit), 0.5),
        cases=len(label),
    )


def describe_cancellation(figures: Mapping[str, Any]) -> str:
    """One line about the figures of `CancellationSummary.to_dict`, with the bounds and whether they are kept."""
    kept = "kept" if figures["bounds_kept"] else "EXCEEDED"
    return (
        f"cancellation of the evidence: median {_figure(figures['median'])}, p90 {_figure(figures['p90'])} "
        f"(at most {MEDIAN_BOUND:g} and {P90_BOUND:g}: {kept}), "
        f"by channel {_figure(figures['channel_median'])} and {_figure(figures['channel_p90'])}; "
        f"context {_percent(figures['context_share'])} of the score at the median"
    )


def _figure(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "infinitely many times" if value is None else f"{value:.0%}"


def _ratio(parts: Float64, whole: Float64, *, empty: float) -> Float64:
    with np.errstate(divide="ignore", invalid="ignore"):
        found = parts / whole
    return np.asarray(np.where((parts == 0) & (whole == 0), empty, found))


def _within(median: float | None, p90: float | None) -> bool:
    pairs = ((median, MEDIAN_BOUND), (p90, P90_BOUND))
    return all(value is not None and value <= bound for value, bound in pairs)


def _quantile(values: Float64, share: float) -> float | None:
    """The smallest value that at least this share of the cases does not exceed; no mean with an infinite one."""
    found = float(np.quantile(values, share, method="inverted_cdf"))
    return found if np.isfinite(found) else None
