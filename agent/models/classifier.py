"""Due windows in, verdicts out: coverage, filling, the model's word, abstention. Pure but for the model it is given."""

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
_MISSING_BELOW = 0.5


@dataclass(frozen=True, slots=True)
class Classification:
    """What the agent says about one window. `prediction` and `at` are None and −1 where the model was not asked."""

    classes: tuple[str, ...]
    state: str
    reason: str | None
    coverage: float
    missing: tuple[str, ...]
    prediction: "Prediction | None"
    at: int


@dataclass(frozen=True, slots=True)
class WindowClassifier:
    """The rules of one group around its model."""

    predictor: "Predictor"
    classes: tuple[str, ...]
    channels: tuple[str, ...]
    fill_rules: Sequence[FillRule]
    min_coverage: float

    def verdicts(self, windows: Floats) -> list[Classification]:
        """One verdict per window (B, C, T; NaN is missing). Blocks while the model works: call it in a thread."""
        observed = ~np.isnan(windows)
        covered = coverage(observed)
        missing = _dropped_out(observed)
        asked = np.flatnonzero(covered >= self.min_coverage)
        prediction = self._predict(windows[asked]) if len(asked) else None
        place = {int(window): at for at, window in enumerate(asked)}
        return [
            self._verdict(float(covered[window]), missing[window], prediction, place.get(window, -1))
            for window in range(len(windows))
        ]

    def channel_effects(self, window: Floats, spans: Sequence[tuple[int, int]], label: int) -> NDArray[np.float64]:
        """How much each channel carried each span, (spans, C), by the predictor's named method."""
        values, mask = fill(window[None], self.fill_rules)
        effects: NDArray[np.float64] = self.predictor.attribute_channels(values[0], mask[0], spans, label)
        return effects

    def _predict(self, windows: Floats) -> "Prediction":
        return self.predictor.predict(*fill(windows, self.fill_rules))

    def _verdict(
        self, covered: float, missing: NDArray[np.bool_], prediction: "Prediction | None", at: int
    ) -> Classification:
        names = tuple(name for name, gone in zip(self.channels, missing, strict=True) if gone)
        if prediction is None or at < 0:
            return Classification(self.classes, UNKNOWN, LOW_COVERAGE, covered, names, None, -1)
        rule = prediction.abstention[at]
        state = UNKNOWN if rule else self.classes[int(prediction.label[at])]
        return Classification(self.classes, state, rule, covered, names, prediction, at)


def _dropped_out(observed: Mask) -> Mask:
    """Channels (B, C) with less than half of the steps at which their asset sent anything: silence is no dropout."""
    steps = observed.any(axis=1).sum(axis=1)  # (B,)
    dropped: Mask = observed.sum(axis=2) < _MISSING_BELOW * steps[:, None]
    return dropped
