"""The explanation of one window's score as a value: patches, experts, channels, and the sum they make."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from anchormoe.bundle.config import BundleConfig
from anchormoe.cases import Bool, Cases, Float32, Float64
from anchormoe.metrics.cancellation import cancellation
from anchormoe.model.prediction import Prediction
from anchormoe.predictor import Predictor

SHOWN_PATCHES = 8
ATTRIBUTED_PATCHES = 4


@dataclass(frozen=True, slots=True)
class Patch:
    """Steps [start, stop) and what they add to the explained class; `channels` (C,) by occlusion, where tried."""

    start: int
    stop: int
    contribution: float
    far_share: float
    channels: Float64 | None = None


@dataclass(frozen=True, slots=True)
class Expert:
    """Summed over the window; weight and reliability are means over the patches where it was used, or None."""

    name: str
    contribution: float
    weight: float | None
    reliability: float | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The arg-max class of one window: logit = context + Σ patches = context + Σ steps."""

    config: BundleConfig
    window: Float32
    """(C, T) raw"""
    mask: Bool
    label: int
    truth: str | None
    probabilities: Float64
    logit: float
    context: float
    steps: Float64
    """(T,)"""
    patches: tuple[Patch, ...]
    """all of them, in time order"""
    experts: tuple[Expert, ...]
    abstention: str | None
    residual: float
    channel_method: str

    @property
    def state(self) -> str:
        return self.config.classes[self.label]

    @property
    def strongest(self) -> list[int]:
        """Indices of the patches with the largest contributions, the largest first."""
        order = np.argsort([-abs(patch.contribution) for patch in self.patches], kind="stable")
        return [int(index) for index in order[:SHOWN_PATCHES]]

    @property
    def cancellation(self) -> float | None:
        """(Σ |contributions| + |context|) / |logit| over the patches: 1 if nothing cancels; None if all of it does."""
        parts = np.array([[patch.contribution for patch in self.patches]])
        found = float(cancellation(parts, np.array([self.context]), np.array([self.logit]))[0])
        return found if np.isfinite(found) else None

    def share(self, contribution: float) -> float:
        """|contribution| / (|context| + Σ |contributions|)."""
        total = abs(self.context) + sum(abs(patch.contribution) for patch in self.patches)
        return abs(contribution) / total if total else 0.0

    def to_dict(self) -> dict[str, Any]:
        """JSON; channels that were not tried are null."""
        return {
            "model": {"name": self.config.name, "version": self.config.version, "digest": self.config.digest},
            "state": self.state,
            "truth": self.truth,
            "abstention": self.abstention,
            "probabilities": dict(zip(self.config.classes, self.probabilities.tolist(), strict=True)),
            "logit": self.logit,
            "context": self.context,
            "residual": self.residual,
            "cancellation": self.cancellation,
            "channel_method": self.channel_method,
            "patches": [self._patch_dict(patch) for patch in self.patches],
            "experts": [
                {"name": one.name, "contribution": one.contribution, "weight": one.weight,
                 "reliability": one.reliability}
                for one in self.experts
            ],
        }  # fmt: skip

    def _patch_dict(self, patch: Patch) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "start": patch.start, "stop": patch.stop, "contribution": patch.contribution,
            "share": self.share(patch.contribution), "far_share": patch.far_share,
        }  # fmt: skip
        if patch.channels is not None:
            values = [None if np.isnan(value) else float(value) for value in patch.channels]
            facts["channels"] = dict(zip(self.config.channels, values, strict=True))
        return facts


def explain_case(predictor: Predictor, case: Cases, *, truth: str | None = None) -> Explanation:
    """Explains the first of the raw cases."""
    one = case.subset(slice(0, 1)).resized(predictor.config.length)
    found = predictor.predict_cases(case.subset(slice(0, 1)))
    label = int(found.label[0])
    return Explanation(
        config=predictor.config,
        window=one.x[0],
        mask=one.mask[0],
        label=label,
        truth=truth,
        probabilities=found.probabilities[0],
        logit=float(found.logits[0, label]),
        context=float(found.context[0, label]),
        steps=np.asarray(predictor.steps(case.subset(slice(0, 1))).over_time[0, :, label]),
        patches=_patches(predictor, one, found, label),
        experts=_experts(found),
        abstention=found.abstention[0],
        residual=float(found.residual[0]),
        channel_method=predictor.channel_method,
    )


def _patches(predictor: Predictor, one: Cases, found: Prediction, label: int) -> tuple[Patch, ...]:
    contributions = found.contributions[0, :, label]
    bounds = list(zip(found.starts.tolist(), found.stops.tolist(), strict=True))
    strongest = [int(index) for index in np.argsort(-np.abs(contributions), kind="stable")[:ATTRIBUTED_PATCHES]]
    channels = predictor.attribute_channels(one.x[0], one.mask[0], [bounds[index] for index in strongest], label)
    by_patch = dict(zip(strongest, channels, strict=True))
    return tuple(
        Patch(start, stop, float(contributions[index]), float(found.far_share[0, index]), by_patch.get(index))
        for index, (start, stop) in enumerate(bounds)
    )


def _experts(found: Prediction) -> tuple[Expert, ...]:
    return tuple(
        Expert(
            name,
            float(found.expert_contributions[0, :, index].sum()),
            _mean(found.weight[0, ..., index]),
            _mean(found.reliability[0, ..., index], found.weight[0, ..., index]),
        )
        for index, name in enumerate(found.experts)
    )


def _mean(values: Float64, weight: Float64 | None = None) -> float | None:
    """Over patches and terms that have a value; with `weight` only over those where the expert was used."""
    known = ~np.isnan(values) if weight is None or np.isnan(weight).all() else ~np.isnan(values) & (weight > 0)
    return float(values[known].mean()) if known.any() else None
