"""Rules by which the model answers `unknown`; their thresholds come from TRAIN, out-of-fold. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np

from anchormoe.cases import Bool, Cases, Float64, Int64
from anchormoe.conversion import Share, from_stored, override
from anchormoe.errors import ModelError
from anchormoe.folds import Folds
from anchormoe.model.normalizer import Normalizer

Rule = Literal["channel_missing", "out_of_distribution", "low_probability", "low_margin", "conformal"]
RULES: tuple[Rule, ...] = get_args(Rule)
"""In order of precedence: the first that fires is the reason."""
CONFORMAL_CASES, CONFORMAL_GROUPS, CONFORMAL_PER_CLASS = 100, 20, 20
"""With ten cases of a class, folds train on seven or eight. Their models may be so much weaker than the final one that
the threshold from them makes it answer `unknown` where it is right; that this is the cause is not shown."""
MOST_RIGHT_PER_WRONG = 4
"""The conformal rule is kept where it withholds at most so many right answers for a wrong one, out-of-fold."""
FULL_RULES_CASES = 100
MISCOVERAGE = 0.1
LEAST_MARGIN = 0.1
LEAST_VALID = 0.5
_OFTEN_MISSING = 0.05
_UNUSUAL_QUANTILE = 0.99


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What a user may set instead of the fitted values; None switches a rule off."""

    least_probability: Share | None = None
    least_margin: Share | None = None
    conformal: Share | None = None
    most_unusual: Share | None = None


@dataclass(frozen=True, slots=True)
class Abstention:
    """A rule with threshold None is off. `required` (C,) marks the channels that must be present."""

    least_probability: Share | None = None
    least_margin: Share | None = None
    conformal: Share | None = None
    """classes of at least this probability form the conformal set; with more than one the model abstains"""
    most_unusual: Share | None = None
    """largest share of a window's values outside TRAIN's usual range"""
    required: tuple[bool, ...] = ()
    without: tuple[Share | None, ...] = ()
    """accuracy without each channel, of a model trained with channel dropout; None where it is not known"""
    rates: Mapping[Rule, Share] = field(default_factory=dict)
    """share of TRAIN on which each rule fires, out-of-fold"""
    unknown: Share | None = None
    """share of TRAIN on which any rule fires, out-of-fold"""
    coverage: Share | None = None
    """share of TRAIN whose class is in its conformal set, each fold measured with the threshold of the others"""

    def reasons(self, probabilities: Float64, unusual: Float64, missing: Bool) -> tuple[Rule | None, ...]:
        """For each case the first rule that fires, or None. `missing` (B, C) marks channels less than half valid."""
        fired = self.fired(probabilities, unusual, missing)
        order = [(name, fired[name]) for name in RULES if name in fired]
        return tuple(next((name for name, hits in order if hits[index]), None) for index in range(len(probabilities)))

    def fired(self, probabilities: Float64, unusual: Float64, missing: Bool) -> dict[Rule, Bool]:
        """(B,) for each rule that is on, independently of the others."""
        top = np.sort(probabilities, axis=1)[:, ::-1]
        hits: dict[Rule, Bool] = {}
        if any(self.required):
            hits["channel_missing"] = self._lacks_channel(missing & np.array(self.required))
        if self.most_unusual is not None:
            hits["out_of_distribution"] = unusual > self.most_unusual
        if self.least_probability is not None:
            hits["low_probability"] = top[:, 0] < self.least_probability
        if self.least_margin is not None:
            hits["low_margin"] = top[:, 0] - top[:, 1] < self.least_margin
        if self.conformal is not None:
            hits["conformal"] = (probabilities >= self.conformal).sum(axis=1) > 1
        return hits

    def _lacks_channel(self, missing: Bool) -> Bool:
        """(B,) from (B, C): a single channel may be missing where the accuracy without it is known."""
        if not self.without:
            return np.asarray(missing.any(axis=1))
        unknown = np.array([accuracy is None for accuracy in self.without])
        return np.asarray((missing & unknown).any(axis=1) | (missing.sum(axis=1) > 1))

    def to_dict(self) -> dict[str, Any]:
        stored = {one.name: getattr(self, one.name) for one in fields(self)}
        return stored | {"required": list(self.required), "without": list(self.without), "rates": dict(self.rates)}

    @classmethod
    def from_dict(cls, stored: Any, n_channels: int) -> "Abstention":
        """From the part `abstention` of calibration.json. Raises ModelError."""
        where = "calibration.json: abstention"
        earlier: dict[str, Any] = {"without": [], "unknown": None}  # bundles from before these keys existed
        whole = earlier | stored if isinstance(stored, dict) else stored
        rules = from_stored(cls, whole, where)
        if len(rules.required) != n_channels:
            raise ModelError(f"{where}.required: {len(rules.required)} entries for {n_channels} channels")
        if len(rules.without) not in (0, n_channels):
            raise ModelError(f"{where}.without: {len(rules.without)} entries for {n_channels} channels")
        return rules


def half_missing(cases: Cases) -> Bool:
    """(N, C): channels that are valid on less than half of a case's steps, padding not counted."""
    return np.asarray(cases.mask.sum(axis=2) < LEAST_VALID * cases.lengths[:, None])


def least_probability(n_classes: int) -> float:
    """A quarter of the way from guessing to certainty."""
    return 1 / n_classes + 0.25 * (1 - 1 / n_classes)


@dataclass(frozen=True, slots=True)
class OutOfFold:
    """What the rules are fitted on: calibrated out-of-fold probabilities (N, Y) and the raw TRAIN cases."""

    probabilities: Float64
    y: Int64
    cases: Cases
    folds: Folds
    groups: Int64 | None = None
    without: tuple[float | None, ...] = ()
    """accuracy without each channel, of a model trained with channel dropout"""


def fit_abstention(train: OutOfFold, thresholds: Mapping[str, Any] = MappingProxyType({})) -> Abstention:
    """All rules from 100 cases on, below only the probability rule; the conformal one only where it is worth it.

    `thresholds` replace fitted ones; None is off.
    """
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
    if rules.conformal is not None and not _conformal_is_worth_it(train, rules, unusual, missing):
        rules = replace(rules, conformal=None)
    require_thresholds(thresholds)
    rules = replace(rules, **thresholds)
    fired = rules.fired(train.probabilities, unusual, missing)
    return replace(
        rules,
        rates={name: float(hits.mean()) for name, hits in fired.items()},
        unknown=float(np.any(list(fired.values()), axis=0).mean()) if fired else 0.0,
        coverage=None if rules.conformal is None else _coverage(train),
    )


def require_thresholds(thresholds: Mapping[str, Any]) -> None:
    """Known names, values between 0 and 1 or None. Raises DataError."""
    override(Thresholds(), thresholds, "abstention")


def unusual_shares(cases: Cases, folds: Folds) -> Float64:
    """(N,) share of each case's valid entries outside the usual range of the other folds."""
    shares = np.zeros(len(cases))
    for here, rest in zip(folds.held_out, folds.trained, strict=True):
        normalizer = Normalizer.fit(cases.subset(rest))
        shares[here] = normalizer.outside(normalizer.apply(cases.subset(here)))
    return shares


def conformal_threshold(probabilities: Float64, y: Int64) -> float:
    """The probability that the true class reaches in 90 % of the cases, with finite-sample correction."""
    scores = np.sort(probabilities[np.arange(len(y)), y])
    rank = int(np.floor(MISCOVERAGE * (len(y) + 1))) - 1
    return float(scores[rank]) if rank >= 0 else 0.0


def _conformal_is_possible(train: OutOfFold) -> bool:
    if train.groups is not None:
        return len(np.unique(train.groups)) >= CONFORMAL_GROUPS
    fewest = int(np.unique(train.y, return_counts=True)[1].min())
    return len(train.y) >= CONFORMAL_CASES and fewest >= CONFORMAL_PER_CLASS


def _conformal_is_worth_it(train: OutOfFold, rules: Abstention, unusual: Float64, missing: Bool) -> bool:
    """Whether enough of the answers are wrong that it alone withholds; each fold has the threshold of the others.

    An accurate model whose out-of-fold probabilities are too modest has a low threshold, which many second classes
    reach: it would be `unknown` most often where it is right.
    """
    others = replace(rules, conformal=None).fired(train.probabilities, unusual, missing)
    answered = ~np.any(list(others.values()), axis=0) if others else np.ones(len(train.y), np.bool_)
    withheld = np.zeros(len(train.y), np.bool_)
    for here, rest in zip(train.folds.held_out, train.folds.trained, strict=True):
        threshold = conformal_threshold(train.probabilities[rest], train.y[rest])
        withheld[here] = (train.probabilities[here] >= threshold).sum(axis=1) > 1
    right = train.probabilities.argmax(axis=1) == train.y
    lost, saved = int((withheld & answered & right).sum()), int((withheld & answered & ~right).sum())
    return lost <= MOST_RIGHT_PER_WRONG * saved


def _coverage(train: OutOfFold) -> float:
    covered = np.zeros(len(train.y), np.bool_)
    for here, rest in zip(train.folds.held_out, train.folds.trained, strict=True):
        threshold = conformal_threshold(train.probabilities[rest], train.y[rest])
        covered[here] = train.probabilities[here, train.y[here]] >= threshold
    return float(covered.mean())
