"""A prediction of one window with evidence that a test chooses."""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from agent.events.columns import WindowView
from agent.models.normal_values import NormalValues
from anchormoe.model.calibration import softmax
from anchormoe.model.prediction import Prediction
from anchormoe.windows import Grid

HOUR_NS = 3_600_000_000_000


class MadePrediction:
    """The part of a Prediction that events read: evidence (P, K, Y) of one window, in patches of equal length."""

    def __init__(
        self,
        evidence: Any,
        context: Any,
        *,
        terms: tuple[tuple[int, ...], ...] | None = None,
        length: int = 1,
        stride: int | None = None,
        experts: tuple[str, ...] = ("kernel", "m0/e1"),
    ) -> None:
        values, base = np.asarray(evidence, np.float64), np.asarray(context, np.float64)
        patches, count, _ = values.shape
        self.terms = terms or tuple((channel,) for channel in range(count))
        self.evidence, self.context = values[None], base[None]
        self.logits = self.context + values.sum(axis=(0, 1))
        self.probabilities = softmax(self.logits)
        self.label = self.logits.argmax(axis=1)
        self.starts = np.arange(patches, dtype=np.int64) * (stride or length)
        self.stops = self.starts + length
        self.experts = experts
        own = values[:, :, int(self.label[0])]
        parts = np.linspace(1, 2, len(experts)) / np.linspace(1, 2, len(experts)).sum()
        self.expert_evidence: NDArray[np.float64] = (own[:, :, None] * parts)[None]
        self.weight = np.full(self.expert_evidence.shape, 0.25)
        self.reliability = np.full(self.expert_evidence.shape, np.nan)
        self.residual = np.zeros(1)
        self.abstention = (None,)

    def as_prediction(self) -> Prediction:
        return cast(Prediction, self)


def made_view(
    window: Any, *, normal: NormalValues | None = None, names: tuple[str, ...] = (), units: tuple[str, ...] = ()
) -> WindowView:
    """A window of one step an hour that begins at midnight."""
    values = np.asarray(window, np.float32)
    channels = names or tuple(f"channel {number}" for number in range(len(values)))
    return WindowView(values, channels, units or ("",) * len(values), normal, Grid(HOUR_NS), 24 * 365 * 50)


def made_normal(*channels: tuple[float, float, float], deviation: float = 1.0) -> NormalValues:
    """Mean, low and high of each channel."""
    mean, low, high = (np.array(part, np.float64) for part in zip(*channels, strict=True))
    return NormalValues("normal", mean, low, high, np.full(len(mean), deviation))
