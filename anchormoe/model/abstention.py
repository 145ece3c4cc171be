"""When the model says `unknown`, and by which rule; thresholds come from TRAIN, out-of-fold. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from anchormoe.cases import Bool, Cases, Float64, Int64
from anchormoe.errors import DataError, ModelError
from anchormoe.model.normalizer import Normalizer

RULES = ("channel_missing", "out_of_distribution", "low_probability", "low_margin", "conformal")
"""In order of precedence: the first that fires names the reason."""
THRESHOLDS = ("least_probability", "least_margin", "conformal", "most_unusual")
CONFORMAL_CASES, CONFORMAL_GROUPS = 100, 20
FULL_RULES_CASES = 100
MISCOVERAGE = 0.1
LEAST_MARGIN = 0.1
LEAST_VALID = 0.5
_OFTEN_MISSING = 0.05
_UNUSUAL_QUANTILE = 0.99


@dataclass(frozen=True, slots=True)
class Abstention:
    """A rule with threshold None is off. `required` (C,) are the channels whose absence counts."""

    least_probability: float | None = None
    least_margin: float | None = None
    conformal: float | None = None
    """classes at least this probable form the conformal set; more than one of them is no answer"""
    most_unusual: float | None = None
    required: tuple[bool, ...] = ()
    without: tuple[float | None, ...] = ()
    """accuracy without each channel, of a model that was trained to do without one; None where it is not known"""
    rates: Mapping[str, float] = field(default_factory=dict)
    """share of TRAIN on which each rule fires, out-of-fold"""
    coverage: float | None = None
    """share of TRAIN whose class is in its conformal set, measured leaving folds out"""

    def reasons(self, probabilities: Float64, unusual: Float64, missing: Bool) -> tuple[str | None, ...]:
        """Per case the name of the rule, or None. `missing` is (B, C): channels less than half valid."""
        fired = self.fired(probabilities, unusual, missing)
        order = [(name, fired[name]) for name in RULES if name in fired]
        return tuple(next((name for name, hits in order if hits[index]), None) for index in range(len(probabilities)))

    def fired(self, probabilities: Float64, unusual: Float64, missing: Bool) -> dict[str, Bool]:
        """(B,) per rule that is on, each rule by itself."""
        top = np.sort(probabilities, axis=1)[:, ::-1]
        hits: dict[str, Bool] = {}
        if any(self.required):
            hits["channel_missing"] = self._lacks(missing & np.array(self.required))
        if self.most_unusual is not None:
            hits["out_of_distribution"] = unusual > self.most_unusual
        if self.least_probability is not None:
            hits["low_probability"] = top[:, 0] < self.least_probability
        if self.least_margin is not None:
            hits["low_margin"] = top[:, 0] - top[:, 1] < self.least_margin
        if self.conformal is not None:
            hits["conformal"] = (probabilities >= self.conformal).sum(axis=1) > 1
        return hits

    def _lacks(self, missing: Bool) -> Bool:
        """(B,) from (B, C): any channel; but one alone may be missing where the accuracy without it is known."""
        if not self.without:
            return np.asarray(missing.any(axis=1))
        unknown = np.array([accuracy is None for accuracy in self.without])
        return np.asarray((missing & unknown).any(axis=1) | (missing.sum(axis=1) > 1))

    def to_dict(self) -> dict[str, Any]:
        stored = {one.name: getattr(self, one.name) for one in fields(self)}
        return stored | {"required": list(self.required), "without": list(self.without), "rates": dict(self.rates)}

    @classmethod
    def from_dict(cls, stored: Any, n_channels: int) -> "Abstention":
        """Strict. Raises ModelError."""
        names = {one.name for one in fields(cls)}
        if not isinstance(stored, Mapping) or set(stored) | {"without"} != names:  # older bundles do not know it
            raise ModelError(f"calibration.json: abstention needs exactly {', '.join(sorted(names))}")
        required, rates = stored["required"], stored["rates"]
        if not isinstance(required, list) or [type(one) for one in required] != [bool] * n_channels:
            raise ModelError(f"calibration.json: abstention.required must list {n_channels} booleans")
        if not isinstance(rates, Mapping) or not set(rates) <= set(RULES):
            raise ModelError("calibration.json: abstention.rates names an unknown rule")
        parts = {name: _share_or_none(stored[name], name) for name in (*THRESHOLDS, "coverage")}
        return cls(
            **parts,
            required=tuple(required),
            without=_accuracies(stored.get("without", []), n_channels),
            rates={name: _share(rates[name], name) for name in rates},
        )


def half_missing(cases: Cases) -> Bool:
    """(N, C): channels that are valid on less than half of the steps of a case (padding does not count)."""
    return np.asarray(cases.mask.sum(axis=2) < LEAST_VALID * cases.lengths[:, None])


def least_probability(n_classes: int) -> float:
    """A quarter of the way from guessing to certainty."""
    return 1 / n_classes + 0.25 * (1 - 1 / n_classes)


@dataclass(frozen=True, slots=True)
class Evidenced:
    """What the rules are fitted on: calibrated out-of-fold probabilities (N, Y) and raw TRAIN cases."""

    probabilities: Float64
    y: Int64
    cases: Cases
    folds: Int64
    groups: Int64 | None = None
    without: tuple[float | None, ...] = ()
    """accuracy without each channel, of a model that learnt to do without one"""


def fit_abstention(train: Evidenced, wishes: Mapping[str, float | None] = MappingProxyType({})) -> Abstention:
    """All rules from 100 cases on; below, only the probability rule. `wishes` replace thresholds; None is off."""
    many = len(train.y) >= FULL_RULES_CASES
    unusual, missing = unusual_shares(train.cases, train.folds), half_missing(train.cases)
    rare = missing.mean(axis=0) <= _OFTEN_MISSING
    rules = Abstention(
        least_probability=least_probability(train.probabilities.shape[1]),
        least_margin=LEAST_MARGIN if many else None,
        conformal=conformal_threshold(train.probabilities, train.y) if _conformal_is_possible(train) else None,
        most_unusual=float(np.quantile(unusual, _UNUSUAL_QUANTILE)) if many else None,
        required=tuple(bool(one) for one in rare & many),
        without=train.without,
    )
    rules = replace(rules, **require_wishes(wishes))
    rates = {name: float(hits.mean()) for name, hits in rules.fired(train.probabilities, unusual, missing).items()}
    return replace(rules, rates=rates, coverage=None if rules.conformal is None else _coverage(train))


def require_wishes(wishes: Mapping[str, Any]) -> dict[str, Any]:
    """Thresholds between 0 and 1, or None. Raises DataError."""
    for name, value in wishes.items():
        if name not in THRESHOLDS:
            raise DataError(f"abstention.{name}: unknown; known are {', '.join(THRESHOLDS)}")
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1):
            raise DataError(
                f"abstention.{name}: must be between 0 and 1, or null to switch the rule off, not {value!r}"
            )
    return dict(wishes)


def unusual_shares(cases: Cases, folds: Int64) -> Float64:
    """(N,) share of each case's valid entries outside the usual range of the other folds."""
    shares = np.zeros(len(cases))
    for fold in np.unique(folds):
        here = folds == fold
        rest = ~here if (~here).any() else here
        normalizer = Normalizer.fit(cases.subset(rest))
        shares[here] = normalizer.outside(normalizer.apply(cases.subset(here)))
    return shares


def conformal_threshold(probabilities: Float64, y: Int64) -> float:
    """The probability that the true class reaches in 90 % of the cases, with the finite-sample correction."""
    scores = np.sort(probabilities[np.arange(len(y)), y])
    rank = int(np.floor(MISCOVERAGE * (len(y) + 1))) - 1
    return float(scores[rank]) if rank >= 0 else 0.0


def simple_folds(n_cases: int, groups: Int64 | None, folds: int = 5) -> Int64:
    """Whole groups dealt out in turn; without at least three of them cases in contiguous blocks."""
    names, index = (np.unique(groups, return_inverse=True)) if groups is not None else (np.zeros(0), np.zeros(0))
    if len(names) >= 3:
        return np.asarray(index % folds, np.int64)
    if groups is not None:
        return np.asarray(np.arange(n_cases) * folds // n_cases, np.int64)
    return np.arange(n_cases, dtype=np.int64) % folds


def _conformal_is_possible(train: Evidenced) -> bool:
    if train.groups is not None:
        return len(np.unique(train.groups)) >= CONFORMAL_GROUPS
    return len(train.y) >= CONFORMAL_CASES


def _coverage(train: Evidenced) -> float:
    covered = np.zeros(len(train.y), np.bool_)
    for fold in np.unique(train.folds):
        here, rest = train.folds == fold, train.folds != fold
        threshold = conformal_threshold(train.probabilities[rest], train.y[rest])
        covered[here] = train.probabilities[here, train.y[here]] >= threshold
    return float(covered.mean())


def _accuracies(stored: Any, n_channels: int) -> tuple[float | None, ...]:
    if not isinstance(stored, list) or len(stored) not in (0, n_channels):
        raise ModelError(f"calibration.json: abstention.without must list {n_channels} numbers or null, or nothing")
    return tuple(_share_or_none(value, "without") for value in stored)


def _share_or_none(value: Any, name: str) -> float | None:
    return None if value is None else _share(value, name)


def _share(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ModelError(f"calibration.json: abstention.{name} must be null or between 0 and 1")
    return float(value)
