"""I(20): how well an evaluator learns the classes from the fifth of the steps that a ranking puts first."""

from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Bool, Cases, Float32, Float64, Int64
from anchormoe.metrics.removal import Removal, chosen_steps, place_steps

KEPT_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class RankedCases:
    """Scaled cases (0 is TRAIN's mean of every channel), their classes and the scores (N, T) of their steps."""

    scaled: Cases
    y: Int64
    scores: Float64


@dataclass(frozen=True, slots=True)
class Retention:
    """Accuracies on TEST; `mask_only` is the control that sees which steps were kept, but none of their values."""

    accuracy: float
    mask_only: float
    cases: int

    @property
    def standard_error(self) -> float:
        """Binomial."""
        return float(np.sqrt(self.accuracy * (1 - self.accuracy) / self.cases))


def measure_retention(train: RankedCases, test: RankedCases, how: Removal, *, classes: int, seed: int = 0) -> Retention:
    """Retrained from scratch on the kept steps, and once more on their places alone.

    `mean`: what is not kept is TRAIN's mean, and nothing says so. `missing`: the evaluator is told what is missing.
    """
    # Imported here: it needs torch, which a page that is written from a ledger does not.
    from anchormoe.metrics.evaluator_net import train_and_predict

    kept, kept_test = (_kept(part, seed=seed) for part in (train, test))
    values = train_and_predict(
        _values(train, kept, how), train.y, _values(test, kept_test, how), classes=classes, seed=seed
    )
    places = train_and_predict(_as_channel(kept), train.y, _as_channel(kept_test), classes=classes, seed=seed)
    return Retention(float(np.mean(values == test.y)), float(np.mean(places == test.y)), len(test.y))


def _kept(part: RankedCases, *, seed: int) -> Bool:
    valid = part.scaled.step_mask
    return chosen_steps(place_steps(part.scores, valid, seed=seed), valid, KEPT_SHARE, "most")


def _values(part: RankedCases, kept: Bool, how: Removal) -> Float32:
    x = np.where(kept[:, None] & part.scaled.mask, part.scaled.x, np.float32(0))
    return x if how == "mean" else np.concatenate((x, _as_channel(kept)), axis=1)


def _as_channel(kept: Bool) -> Float32:
    return kept[:, None].astype(np.float32)
