"""Chooses mixes of feature blocks by their predictions for cases (or groups) left out. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Float64, Int64
from anchormoe.folds import Timeline
from anchormoe.kernels.ridge import STRENGTHS, Problem, ridge_path

Mix = dict[str, float]
"""Weights of blocks in a sum of Gram matrices."""

PICKS = 15
MAX_DEFAULT_STRENGTH = 0.25
"""Larger than what sets with more cases choose for informative kernels."""

DEFAULT_MIXES: tuple[Mix, ...] = (
    {"K": 1.0},
    {"K": 1.0, "H": 0.3, "K2": 1.0, "K4": 0.5},
    {"K": 1.0, "H": 0.3, "K2": 1.0, "K4": 0.5, "M1": 0.3, "M4": 0.3, "S1": 0.3},
)
"""Used with equal shares where there are too few cases to choose by.

Fitted on 12 (24) cases of TRAIN of eight (nine) UEA sets, they classified .65 (.80) of the other TRAIN cases correctly;
one mix with first differences (K + D + .3 H) .63 (.77), a choice by leave-one-out .59 (.78).
"""
NAMED_MIXES: tuple[Mix, ...] = (
    {"K": 1.0, "D": 1.0, "H": 0.3},
    {"K": 1.0, "H": 0.3},
    {"K": 1.0, "D": 1.0, "H": 0.3, "K2": 1.0, "K4": 0.5},
    {"K": 1.0, "H": 0.3, "M1": 1.0, "S1": 1.0, "A1": 1.0},
    {"M1": 1.0, "M4": 1.0},
    {"M1": 1.0, "S1": 1.0, "A1": 1.0},
    *DEFAULT_MIXES,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mix with its best strength and the leave-out predictions (N, Y) that go with it."""

    mix: Mix
    strength: float
    predictions: Float64
    error: float


@dataclass(frozen=True, slots=True)
class Choice:
    """Mixes with their strengths and shares; the shares add up to 1."""

    mixes: tuple[Mix, ...]
    strengths: tuple[float, ...]
    shares: tuple[float, ...]


def mixed_gram(grams: Mapping[str, Float64], mix: Mix) -> Float64:
    total = np.zeros(next(iter(grams.values())).shape)
    for name, weight in mix.items():
        total += weight * grams[name]
    return total


def available(mix: Mix, names: Sequence[str]) -> Mix:
    """The blocks of a mix that exist."""
    return {name: weight for name, weight in mix.items() if name in names}


def evaluate_mixes(
    grams: Mapping[str, Float64], problem: Problem, progress: Callable[[int, int], None]
) -> list[Candidate]:
    """Single blocks and the named mixes; `progress` is given the number done and their total.

    A greedy search for further mixes took most of the time and found none that was better on other cases of TRAIN.
    """
    mixes = _distinct([{name: 1.0} for name in grams] + [available(mix, list(grams)) for mix in NAMED_MIXES])
    evaluated: list[Candidate] = []
    for mix in mixes:
        evaluated.append(evaluate_mix(grams, mix, problem))
        progress(len(evaluated), len(mixes))
    return evaluated


def evaluate_mix(grams: Mapping[str, Float64], mix: Mix, problem: Problem, strengths: Float64 = STRENGTHS) -> Candidate:
    """With the strength that has the smallest leave-out error."""
    path = ridge_path(mixed_gram(grams, mix), problem, strengths)
    best = path.best
    return Candidate(mix, float(path.strengths[best]), path.predictions[best], float(path.errors[best]))


def default_choice(grams: Mapping[str, Float64], problem: Problem) -> Choice:
    """For too few cases to choose by; large strengths are excluded, since they often predict nothing but the mean."""
    mild = STRENGTHS[STRENGTHS <= MAX_DEFAULT_STRENGTH]
    mixes = _distinct([available(mix, list(grams)) for mix in DEFAULT_MIXES])
    fitted = [evaluate_mix(grams, mix, problem, mild) for mix in mixes]
    strengths = tuple(one.strength for one in fitted)
    return Choice(tuple(mixes), strengths, (1 / len(mixes),) * len(mixes))


def choose(candidates: Sequence[Candidate], problem: Problem, picks: int = PICKS) -> Choice:
    """Caruana's ensemble selection: picks with replacement, each time the candidate that improves the average most."""
    predictions = np.stack([one.predictions for one in candidates])  # (A, N, Y)
    counts = np.zeros(len(candidates), np.int64)
    total = np.zeros(predictions.shape[1:])
    for pick in range(picks):
        averages = (total + predictions) / (pick + 1)
        errors = ((averages - problem.targets) ** 2).mean(axis=2) @ problem.case_weight  # (A,)
        chosen = int(np.argmin(errors))
        counts[chosen] += 1
        total += predictions[chosen]
    picked = np.flatnonzero(counts)
    return Choice(
        tuple(candidates[index].mix for index in picked),
        tuple(candidates[index].strength for index in picked),
        tuple(float(counts[index] / picks) for index in picked),
    )


def _distinct(mixes: Sequence[Mix]) -> list[Mix]:
    distinct: list[Mix] = []
    for mix in mixes:
        if mix and mix not in distinct:
            distinct.append(mix)
    return distinct


def subset_for_selection(y: Int64, timeline: Timeline | None, size: int, rng: np.random.Generator) -> Int64:
    """Indices, ascending: all cases if there are no more than `size`, else the same share of every class.

    At least two cases of each, where it has them, so that none is lost when one is left out.
    """
    if len(y) <= size:
        return np.arange(len(y))
    drawn = []
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        count = min(len(members), max(2, len(members) * size // len(y)))
        chosen = rng.choice(members, count, replace=False) if timeline is None else _spread(members, timeline, count)
        drawn.append(chosen)
    return np.sort(np.concatenate(drawn))


def _spread(members: Int64, timeline: Timeline, count: int) -> Int64:
    """Evenly over the recordings and their time."""
    by_time = members[np.argsort(timeline.at[members], kind="stable")]
    return np.asarray(by_time[((np.arange(count) + 0.5) * len(members) / count).astype(np.int64)])
