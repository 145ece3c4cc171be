"""What the recordings of TRAIN allow its cross-validation to show, in sentences. Pure."""

from collections.abc import Iterator, Sequence

import numpy as np

from anchormoe.data.dataset import Dataset
from anchormoe.folds import LEAST_RECORDINGS, Timeline, cut_classes, make_folds

SHOWN_CLASSES = 5


def fold_notes(train: Dataset) -> list[str]:
    """Classes with too few recordings to leave out whole ones, and those that cannot be validated honestly at all."""
    timeline = None if train.groups is None else Timeline.of(train.groups, train.ends, train.cases.steps)
    cut = [] if timeline is None else list(_cut_notes(train, timeline))
    return cut + list(_optimistic_notes(train, timeline))


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
