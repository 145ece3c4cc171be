"""What to know about a data set before training on it: ranges, gaps, class balance, overlap. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from anchormoe.cases import rare_below
from anchormoe.data.dataset import Dataset, Split
from anchormoe.data.fold_notes import fold_notes
from anchormoe.data.resampling import UNLABELLED, Recording

HALF_MISSING = 0.5


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    """Over the valid entries of TRAIN (None where there are none); `longest_gap` is in steps."""

    name: str
    unit: str
    low: float | None
    high: float | None
    mean: float | None
    deviation: float | None
    missing_train: float
    missing_test: float
    longest_gap: int
    constant: bool


@dataclass(frozen=True, slots=True)
class PartFacts:
    """TRAIN or TEST. `lengths` are the minimum, median and maximum, in steps."""

    cases: int
    lengths: tuple[int, int, int]
    class_counts: dict[str, int]
    recordings: int | None


@dataclass(frozen=True, slots=True)
class OverlapFacts:
    """TEST cases that are also in TRAIN, TRAIN cases that occur twice, and recordings that both parts share."""

    in_both: int
    twice_in_train: int
    shared_recordings: int


@dataclass(frozen=True, slots=True)
class RecordingFacts:
    """A recording on the grid; `gaps` are runs of steps without a sample."""

    name: str
    asset: str
    steps: int
    samples: int
    empty_share: float
    gaps: int
    longest_gap: int
    same_step: int
    out_of_order: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """All facts; `notes` are sentences about what may be a problem."""

    name: str
    period_s: float | None
    train: PartFacts
    test: PartFacts
    channels: tuple[ChannelFacts, ...]
    overlap: OverlapFacts
    mixed_windows: int
    recordings: tuple[RecordingFacts, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def inspect(split: Split, recordings: Sequence[Recording] = ()) -> Inspection:
    """Inspects both parts; `recordings` add what was found before windows were cut."""
    channels = tuple(_channel(split, index) for index in range(len(split.train.channels)))
    train, test, overlap = _part(split.train), _part(split.test), _overlap(split.train, split.test)
    seen = tuple(_recording(one) for one in recordings)
    return Inspection(
        name=split.train.name,
        period_s=split.train.period_s,
        train=train,
        test=test,
        channels=channels,
        overlap=overlap,
        mixed_windows=0 if split.mixed is None else len(split.mixed),
        recordings=seen,
        notes=(
            *_channel_notes(channels),
            *_precision_notes(split.train.channels, recordings),
            *_class_notes(train, test),
            *_label_notes(recordings),
            *fold_notes(split.train),
            *_overlap_notes(overlap),
            *_recording_notes(seen),
            *_overlapping_recordings_notes(recordings),
        ),
    )


def uninformative_channels(train: Dataset) -> list[str]:
    """Notes about channels that cannot help: constant, or without a valid value. Quick, for the start of a training."""
    x, mask = train.cases.x, train.cases.mask
    low = np.where(mask, x, np.inf).min(axis=(0, 2))
    high = np.where(mask, x, -np.inf).max(axis=(0, 2))
    named = zip(train.channels, low, high, strict=True)
    return [
        f"channel {name} " + ("has no valid value in TRAIN" if one > other else f"is constant ({one:g}) in TRAIN")
        for name, one, other in named
        if one >= other
    ]


def longest_run(flags: npt.NDArray[np.bool_]) -> int:
    """Length of the longest run of True in (T,)."""
    return max((stop - start for start, stop in runs(flags)), default=0)


def runs(flags: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """[start, stop) of every run of True in (T,)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return [(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)]


def _channel(split: Split, index: int) -> ChannelFacts:
    x, mask = split.train.cases.x[:, index], split.train.cases.mask[:, index]
    values = x[mask].astype(np.float64)
    low, high, mean, deviation = (
        (float(values.min()), float(values.max()), float(values.mean()), float(values.std()))
        if len(values)
        else (None,) * 4
    )
    return ChannelFacts(
        split.train.channels[index],
        split.train.units[index],
        low,
        high,
        mean,
        deviation,
        missing_train=_missing_share(split.train, index),
        missing_test=_missing_share(split.test, index),
        longest_gap=_longest_gap(split.train, index),
        constant=len(values) > 0 and low == high,
    )


def _inside(part: Dataset) -> npt.NDArray[np.bool_]:
    """(N, T): True for a case's own steps, False for padding."""
    return np.asarray(np.arange(part.cases.x.shape[2]) < part.cases.lengths[:, None])


def _missing_share(part: Dataset, index: int) -> float:
    inside = _inside(part)
    return float(1 - part.cases.mask[:, index][inside].mean())


def _longest_gap(part: Dataset, index: int) -> int:
    gaps = ~part.cases.mask[:, index] & _inside(part)
    return max(longest_run(row) for row in gaps[gaps.any(axis=1)]) if gaps.any() else 0


def _part(part: Dataset) -> PartFacts:
    lengths = part.cases.lengths
    return PartFacts(
        cases=len(part),
        lengths=(int(lengths.min()), int(np.median(lengths)), int(lengths.max())),
        class_counts={name: int(count) for name, count in zip(part.classes, part.class_counts, strict=True)},
        recordings=None if part.groups is None else len(np.unique(part.groups)),
    )


def _overlap(train: Dataset, test: Dataset) -> OverlapFacts:
    in_train, in_test = _case_hashes(train), _case_hashes(test)
    known = set(in_train)
    shared = 0
    if train.groups is not None and test.groups is not None:
        shared = len(np.intersect1d(train.groups, test.groups))
    return OverlapFacts(sum(one in known for one in in_test), len(in_train) - len(known), shared)


def _case_hashes(part: Dataset) -> list[int]:
    cases = part.cases
    return [
        hash((x[:, :length].tobytes(), mask[:, :length].tobytes()))
        for x, mask, length in zip(cases.x, cases.mask, cases.lengths, strict=True)
    ]


def _recording(one: Recording) -> RecordingFacts:
    empty = np.asarray(np.isnan(one.steps).all(axis=1))
    return RecordingFacts(
        name=one.name,
        asset=one.asset,
        steps=len(empty),
        samples=one.samples,
        empty_share=float(empty.mean()),
        gaps=len(runs(empty)),
        longest_gap=longest_run(empty),
        same_step=one.same_step,
        out_of_order=one.out_of_order,
    )


def _channel_notes(channels: Sequence[ChannelFacts]) -> Iterator[str]:
    for one in channels:
        if one.low is None:
            yield f"channel {one.name} has no valid value in TRAIN; it will be ignored"
        elif one.constant:
            yield f"channel {one.name} is constant ({one.low:g}) in TRAIN"
        elif one.missing_train > HALF_MISSING:
            yield f"channel {one.name} is missing for {one.missing_train:.0%} of TRAIN"


def _precision_notes(names: Sequence[str], recordings: Sequence[Recording]) -> Iterator[str]:
    for channel in sorted({channel for one in recordings for channel in one.coarse}):
        yield (
            f"channel {names[channel]} changes by less than single precision can tell at its level, so models cannot "
            "see it; record it with a constant subtracted, or its differences"
        )


def _class_notes(train: PartFacts, test: PartFacts) -> Iterator[str]:
    for name, count in train.class_counts.items():
        if not count:
            yield f"class {name} has no training case; it cannot be learned"
        elif count < rare_below(len(train.class_counts)) * train.cases:
            share = f"{count / train.cases:.1%} of the training cases"
            yield f"class {name} has {share}; training gives it more weight (class_weight: auto)"
        if test.class_counts[name] == 0:
            yield f"class {name} has no test case"
    for alike in _alike(list(train.class_counts)):
        yield f"classes {' and '.join(map(repr, alike))} differ only in capitals; labels.names makes them one"


def _alike(names: Sequence[str]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(" ".join(name.casefold().split()), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _label_notes(recordings: Sequence[Recording]) -> Iterator[str]:
    """Steps that hold a sample and no label; a class called `None` would be among them."""
    there = sum(int((~np.isnan(one.steps)).any(axis=1).sum()) for one in recordings)
    without = sum(int(((~np.isnan(one.steps)).any(axis=1) & (one.labels == UNLABELLED)).sum()) for one in recordings)
    if without:
        yield (
            f"{without / there:.1%} of the samples have no label and are not used: they are outside of every interval, "
            "or their cell is empty, NA, NaN, null, None or -; labels.default gives them one"
        )


def _overlap_notes(overlap: OverlapFacts) -> Iterator[str]:
    if overlap.in_both:
        yield f"{overlap.in_both} test cases are also in TRAIN: the test figures will be too good"
    if overlap.twice_in_train:
        yield f"{overlap.twice_in_train} training cases occur twice"
    if overlap.shared_recordings:
        yield f"{overlap.shared_recordings} recordings are in both parts; their windows do not overlap in time"


def _recording_notes(recordings: Sequence[RecordingFacts]) -> Iterator[str]:
    for one in recordings:
        if one.out_of_order:
            yield f"recording {one.name}: {one.out_of_order} timestamps go backwards (samples were sorted)"
        if one.same_step > one.samples * 0.1:
            shared = f"{one.same_step} of {one.samples} samples share a step"
            yield f"recording {one.name}: {shared} with an earlier one; is period_s too long?"
        if one.empty_share > HALF_MISSING:
            yield f"recording {one.name}: {one.empty_share:.0%} of the steps are empty; is period_s too short?"


def _overlapping_recordings_notes(recordings: Sequence[Recording]) -> Iterator[str]:
    order = sorted(recordings, key=lambda one: (one.asset, one.start))
    for before, after in pairwise(order):
        shared = before.start + len(before.steps) - after.start
        if before.asset == after.asset and shared > 0:
            overlap = f"recordings {before.name} and {after.name} overlap by {shared} steps"
            yield f"{overlap}: they form one group; if one is TEST, windows that overlap it are left out of TRAIN"
