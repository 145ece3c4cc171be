"""Published numbers: few digits, as the last bits differ between processors, and sums that stay exact. Pure."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DIGITS = 6
_EXACT_POWER = 22
"""10**22 is the largest power of ten that a float holds exactly."""
_POWERS = np.array([10.0**power for power in range(_EXACT_POWER + 1)])


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """How many decimals all scores of one event have, so that a sum of them can be published exactly.

    Scores are rounded to whole units of 10**−places; what adds up in units adds up in the published decimals.
    """

    places: int

    @classmethod
    def of(cls, *scores: NDArray[np.float64]) -> "ScoreScale":
        """Six digits for the largest of the scores. Raises ValueError where one is not a number."""
        largest = max((float(np.abs(part).max(initial=0.0)) for part in scores), default=0.0)
        if not math.isfinite(largest) or any(np.isnan(part).any() for part in scores):
            raise ValueError("a score of the model is not a finite number")
        if largest == 0:
            return cls(DIGITS)
        return cls(min(DIGITS - 1 - math.floor(math.log10(largest)), _EXACT_POWER))

    def units(self, scores: NDArray[np.float64]) -> list[int]:
        """The nearest whole units."""
        if self.places >= 0:
            return [int(unit) for unit in np.rint(scores * _POWERS[self.places]).tolist()]
        return [round(score / 10**-self.places) for score in scores.tolist()]

    def number(self, units: int) -> float:
        """The float nearest to the decimal number of so many units; its shortest text is that number."""
        return units / 10**self.places if self.places >= 0 else float(units * 10**-self.places)

    def numbers(self, scores: NDArray[np.float64]) -> list[float]:
        """Rounded, in one go."""
        return [self.number(unit) for unit in self.units(scores)]


def six_digits(value: float) -> float:
    """One number with six significant digits."""
    return float(f"{value:.{DIGITS}g}")


def significant(values: NDArray[np.float64]) -> list[float | None]:
    """Many numbers with six significant digits each, in one go; None for what is not a finite number."""
    if not values.size:
        return []
    finite = np.isfinite(values)
    size = np.where(finite, np.abs(values), 0.0)
    exponent = np.floor(np.log10(np.where(size > 0, size, 1.0))).astype(np.int64)
    places = DIGITS - 1 - exponent
    if (np.abs(places) > _EXACT_POWER).any():
        return [six_digits(value) if math.isfinite(value) else None for value in values.tolist()]
    up, down = _POWERS[np.maximum(places, 0)], _POWERS[np.maximum(-places, 0)]
    rounded = np.rint(np.where(finite, values, 0.0) * up / down) / up * down
    if finite.all():
        found: list[float | None] = rounded.tolist()
        return found
    return [value if known else None for value, known in zip(rounded.tolist(), finite.tolist(), strict=True)]
