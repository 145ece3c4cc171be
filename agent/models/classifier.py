"""Classifies due windows: coverage, filling, the model, abstention. Pure but for the model it is given."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anchormoe.windows import FillRule, Floats, Mask, coverage, fill

if TYPE_CHECKING:
    from anchormoe import Prediction, Predictor

UNKNOWN = "unknown"
LOW_COVERAGE = "low_coverage"
HISTORY_LOST = "history_lost"
INTERNAL = "internal"
_MISSING_BELOW = 0.5


@dataclass(frozen=True, slots=True)
class ModelName:
    """The bundle of a model, as events name it."""

    name: str
    version: str
    digest: str


@dataclass(frozen=True, slots=True)
class Classification:
    """The state in one window; `reason` says why it is `unknown`, `missing` which channels had dropped out.

    The window is number `at` of `prediction`; None and −1 where the model was not asked.
    """

    classes: tuple[str, ...]
    state: str
    reason: str | None
    coverage: float
    missing: tuple[str, ...]
    prediction: "Prediction | None"
    at: int


@dataclass(frozen=True, slots=True)
class WindowClassifier:
    """A model and the rules of its group for gaps: how they are filled, and how much must be there."""

    predictor: "Predictor"
    classes: tuple[str, ...]
    channels: tuple[str, ...]
    fill_rules: Sequence[FillRule]
    min_coverage: float

    def classify(self, windows: Floats) -> list[Classification]:
        """One result per window (B, C, T; NaN is missing). Blocks while the model works: call it in a thread."""
        observed = ~np.isnan(windows)
        covered = coverage(observed)
        missing = _missing_channels(observed)
        asked = np.flatnonzero(covered >= self.min_coverage)
        prediction = self._predict(windows[asked]) if len(asked) else None
        place = {int(window): at for at, window in enumerate(asked)}
        return [
            self._classification(float(covered[window]), missing[window], prediction, place.get(window, -1))
            for window in range(len(windows))
        ]

    def without_model(self, window: Floats, reason: str) -> Classification:
        """`unknown`, for a window (C, T) that could not be classified."""
        observed = ~np.isnan(window[None])
        covered, [missing] = float(coverage(observed)[0]), _missing_channels(observed)
        names = tuple(name for name, is_missing in zip(self.channels, missing, strict=True) if is_missing)
        return Classification(self.classes, UNKNOWN, reason, covered, names, None, -1)

    def _predict(self, windows: Floats) -> "Prediction":
        return self.predictor.predict(*fill(windows, self.fill_rules))

    def _classification(
        self, covered: float, missing: NDArray[np.bool_], prediction: "Prediction | None", at: int
    ) -> Classification:
        names = tuple(name for name, is_missing in zip(self.channels, missing, strict=True) if is_missing)
        if prediction is None or at < 0:
            return Classification(self.classes, UNKNOWN, LOW_COVERAGE, covered, names, None, -1)
        reason = prediction.abstention[at]
        state = UNKNOWN if reason else self.classes[int(prediction.label[at])]
        return Classification(self.classes, state, reason, covered, names, prediction, at)


def _missing_channels(observed: Mask) -> Mask:
    """Channels (B, C) with less than half of the steps at which their asset sent anything at all."""
    steps = observed.any(axis=1).sum(axis=1)  # (B,)
    missing: Mask = observed.sum(axis=2) < _MISSING_BELOW * steps[:, None]
    return missing
