"""What the recordings of TRAIN allow its cross-validation to show, in sentences. Pure."""

from collections.abc import Iterator, Sequence

import numpy as np

from anchormoe.data.dataset import Dataset
from anchormoe.folds import LEAST_RECORDINGS, TIME_BLOCKS, Timeline, cut_classes, make_folds

SHOWN_CLASSES = 5
SHRUNKEN = 0.75
"""Of a class's share of TRAIN."""


def fold_notes(train: Dataset) -> list[str]:
    """Classes with too few recordings to leave out whole ones, and those that cannot be validated honestly at all."""
    timeline = None if train.groups is None else Timeline.of(train.groups, train.ends, train.cases.steps)
    cut = [] if timeline is None else list(_cut_notes(train, timeline))
    shrunken = [] if timeline is None else list(_shrunken_notes(train, timeline))
    return cut + shrunken + list(_optimistic_notes(train, timeline))


def _cut_notes(train: Dataset, timeline: Timeline) -> Iterator[str]:
    cut = cut_classes(train.y, timeline)
    if not cut:
        return
    if timeline.recordings < LEAST_RECORDINGS:
        few = "one recording" if timeline.recordings == 1 else f"{timeline.recordings} recordings"
        what = f"TRAIN has only {few}"
    else:
        what = f"{_listed(train, sorted(cut))} in only one recording of TRAIN"
    yield (
        f"{what}: folds leave out blocks of time with gaps around them instead of whole recordings. The out-of-fold "
        "figures say how well other times of the same recording are recognized, not another recording; record every "
        "class at least twice to learn that"
    )


def _shrunken_notes(train: Dataset, timeline: Timeline) -> Iterator[str]:
    """Where a recording has one class and there are few of them, what is left out is always what training has least of.

    Two classes that are hard to tell apart are then mistaken for each other more often than by chance.
    """
    folds = make_folds(train.y, folds=TIME_BLOCKS, seed=0, timeline=timeline)
    everywhere = train.class_counts / max(len(train), 1)
    shrunken = set()
    for held, trained in zip(folds.held_out, folds.trained, strict=True):
        share = np.bincount(train.y[trained], minlength=len(train.classes)) / max(int(trained.sum()), 1)
        shrunken |= {int(label) for label in np.unique(train.y[held]) if share[label] < SHRUNKEN * everywhere[label]}
    shrunken -= set(train.y[folds.optimistic].tolist())  # theirs are too good
    if shrunken:
        yield (
            f"{_listed(train, sorted(shrunken))} in so few recordings that leaving one out takes much of the class out "
            "of training: the out-of-fold figures are too low, and may be near chance; record more of each"
        )


def _optimistic_notes(train: Dataset, timeline: Timeline | None) -> Iterator[str]:
    seen = make_folds(train.y, folds=LEAST_RECORDINGS, seed=0, timeline=timeline).optimistic
    for label in np.unique(train.y[seen]):
        count, own = int(train.class_counts[label]), int((train.y[seen] == label).sum())
        if own < count:
            yield (
                f"class {train.classes[label]}: folds train on neighbours in time of {own} of its {count} training "
                "cases, because some class would have nothing left otherwise; their out-of-fold figures are too good"
            )
            continue
        cases = "one training case" if count == 1 else f"{count} training cases, too close in time"
        yield (
            f"class {train.classes[label]} has {cases}: folds train on what they judge, so its out-of-fold figures are "
            "too good; record more of it"
        )


def _listed(train: Dataset, classes: Sequence[int]) -> str:
    names = [train.classes[label] for label in classes]
    if len(names) == len(train.classes) > 1:
        return "every class is"
    if len(names) == 1:
        return f"class {names[0]} is"
    more = f" and {len(names) - SHOWN_CLASSES} more" if len(names) > SHOWN_CLASSES else ""
    return f"classes {', '.join(names[:SHOWN_CLASSES])}{more} are each"
