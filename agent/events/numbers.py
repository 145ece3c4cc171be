"""Published numbers: few digits, as the last bits differ between processors, and sums that stay exact. Pure.

An event has some fifty numbers: as plain floats they are rounded faster than as arrays.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

DIGITS = 6
_EXACT_POWER = 22
"""10**22 is the largest power of ten that a float holds exactly."""


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

    def numbers(self, scores: Iterable[float]) -> list[float]:
        return [self.number(unit) for unit in self.units(scores)]


def six_digits(value: float) -> float:
    """Six significant digits."""
    return float(f"{value:.{DIGITS}g}")


def significant(values: Iterable[float]) -> list[float | None]:
    """Six significant digits each; None for what is not a finite number."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]
