"""Scaling learnt from TRAIN, rounded to a grid on which every device computes the same thresholds. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from anchormoe.cases import Bool, Cases, Float64
from anchormoe.conversion import from_stored
from anchormoe.errors import ModelError

GRID = 1024.0
"""Scaled values are multiples of 1/GRID, so that sums of small integer weights are exact in float32, in any order."""
CLIP = 16.0
RANGE = (0.001, 0.999)
"""Quantiles of TRAIN outside of which a value counts as unusual."""
CHUNK_ENTRIES = 4_000_000
_FIELDS = ("mean", "scale", "low", "high")


@dataclass(frozen=True, slots=True)
class Normalizer:
    """Per channel: z-score with TRAIN's mean and scale; `low` and `high` are the scaled quantiles of RANGE."""

    mean: Float64
    scale: Float64
    low: Float64
    high: Float64

    @classmethod
    def fit(cls, cases: Cases) -> "Normalizer":
        """From valid entries only. A constant channel gets scale 1, an all-missing one mean 0 and scale 1."""
        mean, scale = np.zeros(cases.channels), np.ones(cases.channels)
        low, high = np.zeros(cases.channels), np.zeros(cases.channels)
        for channel in range(cases.channels):
            values = cases.x[:, channel][cases.mask[:, channel]].astype(np.float64)
            if values.size:
                mean[channel], scale[channel] = _moments(values)
                scaled = _on_grid((values - mean[channel]) / scale[channel])
                low[channel], high[channel] = np.quantile(scaled, RANGE)
        return cls(mean, scale, low, high)

    def apply(self, cases: Cases) -> Cases:
        """Scaled, rounded to the grid and clipped; masked entries are exactly 0."""
        self._require_channels(cases.channels)
        x = np.empty_like(cases.x)
        step = max(1, CHUNK_ENTRIES // max(1, cases.channels * cases.steps))
        for start in range(0, len(cases), step):
            part = slice(start, start + step)
            scaled = (cases.x[part] - self.mean[:, None]) / self.scale[:, None]
            x[part] = np.where(cases.mask[part], _on_grid(scaled), 0)
        return Cases(x, cases.mask, cases.lengths)

    def outside(self, scaled: Cases) -> Float64:
        """(N,) share of the valid entries of scaled cases that lie outside TRAIN's usual range; 0 without any."""
        unusual = (scaled.x < self.low[:, None]) | (scaled.x > self.high[:, None])
        return _share(unusual & scaled.mask, scaled.mask)

    def to_dict(self) -> dict[str, list[float]]:
        return {name: [float(value) for value in getattr(self, name)] for name in _FIELDS}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Normalizer":
        """From normalizer.json: four lists of equal length. Raises ModelError."""
        lists = from_stored(_StoredNormalizer, stored, "normalizer.json:")
        arrays = {name: np.array(getattr(lists, name), np.float64) for name in _FIELDS}
        if len({len(array) for array in arrays.values()}) != 1:
            raise ModelError("normalizer.json: mean, scale, low and high have different lengths")
        if not (arrays["low"] <= arrays["high"]).all():
            raise ModelError("normalizer.json: low must not exceed high")
        return cls(**arrays)

    def _require_channels(self, channels: int) -> None:
        if channels != len(self.mean):
            raise ModelError(f"the model was trained on {len(self.mean)} channels, the data have {channels}")


@dataclass(frozen=True, slots=True)
class _StoredNormalizer:
    mean: tuple[float, ...]
    scale: tuple[Annotated[float, Meta(gt=0)], ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def _moments(values: Float64) -> tuple[float, float]:
    mean = float(values.mean())
    scale = float(values.std())
    # A spread below float32's rounding error is not a signal.
    constant = scale <= 1e-6 * abs(mean) or scale < 1e-30
    return mean, 1.0 if constant else scale


def _on_grid(values: Float64) -> Float64:
    return np.asarray(np.clip(np.rint(values * GRID) / GRID, -CLIP, CLIP))


def _share(part: Bool, whole: Bool) -> Float64:
    counts = whole.sum(axis=(1, 2))
    return np.asarray(part.sum(axis=(1, 2)) / np.maximum(counts, 1), np.float64)
