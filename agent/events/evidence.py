"""The evidence in an event: the strongest patches, and a remainder that keeps the sum exact. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agent.events.ids import six_digits
from anchormoe.windows import Grid
from connectors.timestamps import format_iso

if TYPE_CHECKING:
    from anchormoe import Prediction


@dataclass(frozen=True, slots=True)
class EvidencePolicy:
    """How much evidence an event carries: patches up to `share` of the total |contribution|, at most `max_patches`."""

    share: float = 0.8
    max_patches: int = 8
    max_channels: int = 3


def strongest_patches(contributions: NDArray[np.float64], context: float, policy: EvidencePolicy) -> list[int]:
    """The patches of greatest |contribution| until the share is reached, in time order."""
    strength = np.abs(contributions)
    order = np.argsort(-strength, kind="stable")
    total = strength.sum() + abs(context)
    reached = np.cumsum(strength[order])
    enough = int(np.searchsorted(reached, policy.share * total)) + 1
    kept = [int(patch) for patch in order[: min(enough, policy.max_patches)] if strength[patch] > 0]
    return sorted(kept)


def explain(
    prediction: "Prediction",
    at: int,
    *,
    classes: Sequence[str],
    shown: Sequence[int],
    effects: NDArray[np.float64] | None,
    channels: Sequence[str],
    grid: Grid,
    start: int,
    policy: EvidencePolicy,
) -> dict[str, Any]:
    """The evidence for the class with the highest score in window `at`, which begins at index `start`.

    context + the contributions shown + remainder = logit, in the published (rounded) numbers.
    """
    label = int(prediction.label[at])
    logit = six_digits(prediction.logits[at, label])
    context = six_digits(prediction.context[at, label])
    values = prediction.contributions[at, :, label]
    total = float(np.abs(values).sum() + abs(prediction.context[at, label])) or 1.0
    patches = [
        {
            "start": format_iso(grid.time_ns(start + int(prediction.starts[patch]))),
            "end": format_iso(grid.time_ns(start + int(prediction.stops[patch]))),
            "contribution": six_digits(values[patch]),
            "share": six_digits(abs(values[patch]) / total),
            "far_share": six_digits(prediction.far_share[at, patch]),
            "experts": _experts(prediction, at, patch),
            "channels": _channels(None if effects is None else effects[position], channels, policy.max_channels),
        }
        for position, patch in enumerate(shown)
    ]
    published = context + sum(six_digits(values[patch]) for patch in shown)
    return {
        "class": classes[label],
        "context": context,
        "patches": patches,
        "remainder": round(logit - published, 12),
        "supporting": six_digits(values[values > 0].sum()),
        "opposing": six_digits(values[values < 0].sum()),
        "residual": six_digits(prediction.residual[at]),
    }


def _experts(prediction: "Prediction", at: int, patch: int) -> list[dict[str, Any]]:
    """What each expert added, strongest first; experts that added nothing are left out."""
    # Plain floats: numpy's take several times as long to format, and most of an event is this list.
    values: list[float] = prediction.expert_contributions[at, patch].tolist()
    weight, reliability = (
        _mean_over_terms(gate[at, patch]).tolist() for gate in (prediction.weight, prediction.reliability)
    )
    order = sorted(range(len(values)), key=lambda expert: -abs(values[expert]))
    return [
        {
            "name": prediction.experts[expert],
            "contribution": six_digits(values[expert]),
            "weight": _number_or_null(weight[expert]),
            "reliability": _number_or_null(reliability[expert]),
        }
        for expert in order
        if values[expert] != 0
    ]


def _channels(effects: NDArray[np.float64] | None, names: Sequence[str], limit: int) -> list[dict[str, Any]]:
    if effects is None:
        return []
    known = np.nan_to_num(effects)  # NaN: not tried, because the method's limit of windows was reached
    order = np.argsort(-np.abs(known), kind="stable")[:limit]
    return [{"name": names[at], "effect": six_digits(known[at])} for at in order if known[at] != 0]


def _mean_over_terms(gate: NDArray[np.float64]) -> NDArray[np.float64]:
    """(K, E) to (E,); NaN where an expert has none."""
    known = ~np.isnan(gate)
    total = np.where(known, gate, 0).sum(axis=0)
    mean: NDArray[np.float64] = np.divide(
        total, known.sum(axis=0), out=np.full(len(total), np.nan), where=known.any(axis=0)
    )
    return mean


def _number_or_null(value: float) -> float | None:
    return None if math.isnan(value) else six_digits(value)
