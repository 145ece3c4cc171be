"""What is normal for each channel, by the training data of a bundle. Pure."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from agent.event_types import is_normal_state

if TYPE_CHECKING:
    from anchormoe import Predictor

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NormalValues:
    """What TRAIN says is normal, per channel (C,): NaN where it is not known.

    `label` is the class that these values are from; None where no class is called normal, and they are from all of
    TRAIN. `deviation` is that inside a window.
    """

    label: str | None
    mean: Floats
    low: Floats
    high: Floats
    deviation: Floats
    _published: dict[int, dict[str, float] | None] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, predictor: "Predictor") -> "NormalValues | None":
        """From the bundle's channel profile; a bundle of format 1 has only the scaling of its inputs."""
        if getattr(predictor, "profile", None) is None:
            return cls._of_scaling(predictor)
        profile, classes = predictor.profile, predictor.config.classes
        assert profile is not None
        row = next((at for at, name in enumerate(classes) if is_normal_state(name)), len(classes))
        rows = np.where(profile.known[row], row, len(classes))  # (C,)
        at = rows, np.arange(len(rows))
        known = profile.known[at]
        mean, low, high, deviation = (
            np.where(known, part[at], np.nan) for part in (profile.mean, profile.low, profile.high, profile.deviation)
        )
        return cls(classes[row] if row < len(classes) else None, mean, low, high, deviation)

    @classmethod
    def _of_scaling(cls, predictor: "Predictor") -> "NormalValues | None":
        model = getattr(predictor, "model", None)
        if model is None:
            return None
        scaling = model.normalizer
        low, high = (scaling.mean + scaling.scale * bound for bound in (scaling.low, scaling.high))
        return cls(None, scaling.mean, low, high, np.full(len(scaling.mean), np.nan))

    def published(self, channel: int) -> dict[str, float] | None:
        """As events have it; None where it is not known. All events of a model share it: not to be changed."""
        if channel not in self._published:
            self._published[channel] = self._rounded(channel)
        return self._published[channel]

    def _rounded(self, channel: int) -> dict[str, float] | None:
        numbers = [float(part[channel]) for part in (self.mean, self.low, self.high)]
        if not all(map(math.isfinite, numbers)):
            return None
        mean, low, high = (float(f"{number:.6g}") for number in numbers)
        deviation = float(f"{self.deviation[channel]:.6g}")
        own = {"deviation": deviation} if math.isfinite(deviation) else {}
        return {"mean": mean, "low": low, "high": high} | own
