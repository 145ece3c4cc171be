"""Classifies due windows: plausibility, coverage, filling, model, abstention. Pure but for the model it is given."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anchormoe.explain.outside import furthest_outside
from anchormoe.model.judgement import IMPLAUSIBLE
from anchormoe.windows import FillRule, Floats, Mask, coverage, fill

if TYPE_CHECKING:
    from anchormoe import Prediction, Predictor
    from anchormoe.model.judgement import Finding, Judge, Judgement

UNKNOWN = "unknown"
LOW_COVERAGE = "low_coverage"
HISTORY_LOST = "history_lost"
INTERNAL = "internal"
OUT_OF_DISTRIBUTION = "out_of_distribution"
_MISSING_BELOW = 0.5


@dataclass(frozen=True, slots=True)
class ModelName:
    """The bundle of a model, as events name it."""

    name: str
    version: str
    digest: str


@dataclass(frozen=True, slots=True)
class OutsideRange:
    """A channel outside the usual range of TRAIN: its value furthest outside, and the share of values outside."""

    channel: str
    unit: str
    value: float
    low: float
    high: float
    share: float


@dataclass(frozen=True, slots=True)
class Classification:
    """The state in one window; `reason` says why it is `unknown`, `missing` which channels had dropped out.

    The window is number `at` of `prediction`; None and −1 where the model was not asked. `findings` are implausible
    samples, `beyond` channels that have left the range of the training data.
    """

    classes: tuple[str, ...]
    state: str
    reason: str | None
    coverage: float
    missing: tuple[str, ...]
    prediction: "Prediction | None"
    at: int
    findings: "tuple[Finding, ...]" = ()
    beyond: tuple[str, ...] = ()
    outside: tuple[OutsideRange, ...] = ()
    """what made the window `unknown` by OUT_OF_DISTRIBUTION, furthest outside first"""


@dataclass(frozen=True, slots=True)
class WindowClassifier:
    """A model and the rules of its group for gaps: how they are filled, and how much must be there.

    `judge` keeps implausible samples from the model; None where its bundle does not know any.
    """

    predictor: "Predictor"
    classes: tuple[str, ...]
    channels: tuple[str, ...]
    fill_rules: Sequence[FillRule]
    min_coverage: float
    judge: "Judge | None" = None

    def classify(self, windows: Floats) -> list[Classification]:
        """One result per window (B, C, T; NaN is missing). Blocks while the model works: call it in a thread."""
        observed = ~np.isnan(windows)
        covered = coverage(observed)
        missing = _missing_channels(observed)
        judged = None if self.judge is None else self.judge.judge(windows)
        plausible = windows if judged is None else judged.windows
        asked = np.flatnonzero(covered >= self.min_coverage)
        prediction = self._predict(plausible[asked]) if len(asked) else None
        place = {int(window): at for at, window in enumerate(asked)}
        found = [
            self._classification(float(covered[window]), missing[window], prediction, place.get(window, -1))
            for window in range(len(windows))
        ]
        found = [
            replace(one, outside=self._outside(plausible[at])) if one.reason == OUT_OF_DISTRIBUTION else one
            for at, one in enumerate(found)
        ]
        return found if judged is None else self._with_findings(found, judged)

    def _outside(self, window: Floats) -> tuple[OutsideRange, ...]:
        """Of a window (C, T); empty for a model that does not know its usual range."""
        usual = getattr(self.predictor, "usual_range", None)
        if usual is None:
            return ()
        units = self.predictor.config.units
        return tuple(
            OutsideRange(self.channels[one.channel], units[one.channel], one.value, one.low, one.high, one.share)
            for one in furthest_outside(window, usual)
        )

    def without_model(self, window: Floats, reason: str) -> Classification:
        """`unknown`, for a window (C, T) that could not be classified."""
        observed = ~np.isnan(window[None])
        covered, [missing] = float(coverage(observed)[0]), _missing_channels(observed)
        without = Classification(self.classes, UNKNOWN, reason, covered, self._names(missing), None, -1)
        return without if self.judge is None else self._with_findings([without], self.judge.judge(window[None]))[0]

    def plausible(self, window: Floats) -> Floats:
        """A window (C, T) as the model gets it: without implausible samples."""
        if self.judge is None:
            return window
        judged: Floats = self.judge.judge(window[None]).windows[0]
        return judged

    def _predict(self, windows: Floats) -> "Prediction":
        return self.predictor.predict(*fill(windows, self.fill_rules))

    def _classification(
        self, covered: float, missing: NDArray[np.bool_], prediction: "Prediction | None", at: int
    ) -> Classification:
        names = self._names(missing)
        if prediction is None or at < 0:
            return Classification(self.classes, UNKNOWN, LOW_COVERAGE, covered, names, None, -1)
        reason = prediction.abstention[at]
        state = UNKNOWN if reason else self.classes[int(prediction.label[at])]
        return Classification(self.classes, state, reason, covered, names, prediction, at)

    def _with_findings(self, found: list[Classification], judged: "Judgement") -> list[Classification]:
        assert self.judge is not None
        undecided: list[bool] = judged.undecided(self.judge.rules.dispensable).tolist()
        beyond: list[bool] = np.asarray(judged.beyond.any(axis=1)).tolist()
        return [
            self._with_finding(one, judged, at, undecided=undecided[at]) if judged.findings[at] or beyond[at] else one
            for at, one in enumerate(found)
        ]

    def _with_finding(self, one: Classification, judged: "Judgement", at: int, *, undecided: bool) -> Classification:
        """Where a channel that the model needs has no plausible values, the rest cannot decide."""
        told = replace(one, findings=judged.findings[at], beyond=self._names(judged.beyond[at]))
        return replace(told, state=UNKNOWN, reason=IMPLAUSIBLE) if undecided and told.prediction is not None else told

    def _names(self, marked: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(name for name, is_marked in zip(self.channels, marked, strict=True) if is_marked)


def _missing_channels(observed: Mask) -> Mask:
    """Channels (B, C) with less than half of the steps at which their asset sent anything at all."""
    steps = observed.any(axis=1).sum(axis=1)  # (B,)
    missing: Mask = observed.sum(axis=2) < _MISSING_BELOW * steps[:, None]
    return missing
