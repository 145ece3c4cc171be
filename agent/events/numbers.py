"""Published numbers: few digits, as the last bits differ between processors, and sums that stay exact. Pure.

One event's numbers are rounded faster as plain floats than as arrays; those of a batch of events the other way round.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIGITS = 6
_EXACT_POWER = 22
"""10**22 is the largest power of ten that a float holds exactly."""
_POWERS = np.array([10.0**power for power in range(_EXACT_POWER + 1)])
_NEAR_HALF = 1e-6
"""A million times what the rounding of a number below 10**6 can be off."""


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """How many decimals all scores of one event have, so that a sum of them can be published exactly.

    Scores are rounded to whole units of 10**−places; what adds up in units adds up in the published decimals.
    """

    places: int

    @classmethod
    def of(cls, scores: Iterable[float]) -> "ScoreScale":
        """Six digits for the largest of the scores. Raises ValueError where one is not a number."""
        sizes = [abs(score) for score in scores]
        if not all(map(math.isfinite, sizes)):
            raise ValueError("a score of the model is not a finite number")
        largest = max(sizes, default=0.0)
        if largest == 0:
            return cls(DIGITS)
        return cls(min(DIGITS - 1 - math.floor(math.log10(largest)), _EXACT_POWER))

    def units(self, scores: Iterable[float]) -> list[int]:
        """The nearest whole units."""
        factor = 10.0 ** abs(self.places)
        if self.places >= 0:
            return [round(score * factor) for score in scores]
        return [round(score / factor) for score in scores]

    def number(self, units: int) -> float:
        """The float nearest to the decimal number of so many units; its shortest text is that number."""
        return units / 10**self.places if self.places >= 0 else float(units * 10**-self.places)

    def decimals(self, units: Iterable[int]) -> list[float]:
        """As `number`, of many."""
        factor = 10 ** abs(self.places)
        if self.places >= 0:
            return [unit / factor for unit in units]
        return [float(unit * factor) for unit in units]

    def numbers(self, scores: Iterable[float]) -> list[float]:
        return self.decimals(self.units(scores))


def six_digits(value: float) -> float:
    """Six significant digits."""
    return float(f"{value:.{DIGITS}g}")


def significant(values: Iterable[float]) -> list[float | None]:
    """Six significant digits each; None for what is not a finite number."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]


def significant_columns(values: NDArray[np.float64]) -> list[Any]:
    """As `significant`, in the array's own shape: the floats nearest to the decimal numbers of six digits.

    A product with a power of ten is rounded once, so its nearest whole number is that of the exact product unless it
    lies close to a half; those, and numbers too large or small for an exact power, are rounded as text.
    """
    sizes, finite = np.abs(values), np.isfinite(values)
    usual = finite & (sizes > 0)
    places = DIGITS - 1 - np.floor(np.log10(sizes, where=usual, out=np.zeros_like(sizes)))
    factor = _POWERS[np.minimum(np.abs(places), _EXACT_POWER).astype(np.int64)]
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.where(places >= 0, values * factor, values / factor)
        units, size = np.rint(scaled), np.abs(scaled)
        rounded = np.where(places >= 0, units / factor, units * factor).astype(object)
        decided = np.abs(np.abs(scaled - units) - 0.5) > _NEAR_HALF
    rounded[~finite] = None
    sure = decided & (size >= 10 ** (DIGITS - 1)) & (size < 10**DIGITS - 1)
    for place in zip(*np.nonzero(usual & ~(sure & (np.abs(places) <= _EXACT_POWER))), strict=True):
        rounded[place] = six_digits(float(values[place]))
    listed: list[Any] = rounded.tolist()
    return listed
