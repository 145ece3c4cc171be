"""Turns files of samples into labelled windows, split into TRAIN and TEST and cut exactly as the agent cuts them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset, Origins, Split
from anchormoe.data.recording_config import RecordingConfig, read_config
from anchormoe.data.recording_files import RawRecording, interval_notes, read_recordings
from anchormoe.data.resampling import UNLABELLED, LabelledWindows, Recording, Samples, cut_windows, resample
from anchormoe.data.splitting import group_overlapping, overlaps_any, select_test, split_by_time
from anchormoe.errors import DataError
from anchormoe.windows import step_words

Flags = npt.NDArray[np.bool_]
SHOWN_NAMES = 5
MANY_CLASSES, FEW_SAMPLES = 50, 10
"""More labels, each of so few samples, are not states."""
UNKNOWN = "unknown"
"""What the agent says instead of a class."""


@dataclass(frozen=True, slots=True)
class RecordingSet:
    """All recordings of a directory on the grid, ordered by time, and the classes that their labels name."""

    recordings: tuple[Recording, ...]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """what was not used of the directory, in words"""


@dataclass(frozen=True, slots=True)
class _OwnedWindows:
    """The windows of all recordings; `owner` is the index of each one's recording."""

    windows: LabelledWindows
    owner: npt.NDArray[np.int64]


def load_recordings(directory: Path, *, config: Path | None, overlap: float | None = None) -> Split:
    """Reads, resamples, cuts and splits the recordings below `directory`. Raises DataError.

    `overlap` is the share of a window that the next one repeats; by default that of the configuration's `hop`.
    """
    settings = read_config(config)
    if overlap is not None:
        hop = max(1, round((1 - overlap) * settings.window.length))
        settings = replace(settings, window=replace(settings.window, hop=hop))
    return split_windows(directory.name, resample_directory(directory, settings), settings)


def resample_directory(directory: Path, config: RecordingConfig) -> RecordingSet:
    """Every recording on the grid, with the classes that occur."""
    raw = read_recordings(directory, config)
    classes = _classes(directory, raw, config)
    codes = {name: at for at, name in enumerate(classes)}
    resampled = [resample(_with_codes(one, codes), config) for one in raw]
    ordered = tuple(sorted(resampled, key=lambda one: (one.start, one.name)))
    return RecordingSet(ordered, classes, interval_notes(directory, config, raw))


def split_windows(name: str, recordings: RecordingSet, config: RecordingConfig) -> Split:
    """TRAIN and TEST without mixed windows, and TEST's mixed ones apart."""
    owned = _cut_all(recordings, config)
    train, test = _split_flags(recordings, owned, config)
    mixed = owned.windows.mixed
    _refuse_an_empty_part(name, recordings, owned, (train & ~mixed, test & ~mixed), config)
    _refuse_lost_classes(name, recordings, owned, train & ~mixed, test & ~mixed)
    return Split(
        train=_dataset(name, recordings, owned, config, train & ~mixed),
        test=_dataset(name, recordings, owned, config, test & ~mixed),
        mixed=_dataset(name, recordings, owned, config, test & mixed) if (test & mixed).any() else None,
    )


def _classes(directory: Path, raw: Sequence[RawRecording], config: RecordingConfig) -> tuple[str, ...]:
    """In the order of `labels.names`; without it sorted, so that the order of files does not matter."""
    seen = {label for one in raw for label in one.labels if label is not None}
    if not seen:
        raise DataError(f"{directory}: no sample has a label; check `labels` in the configuration")
    if len(seen) < 2:
        raise DataError(f"{directory}: every label is {min(seen)!r}; at least two classes are needed")
    _refuse_measurements(directory, raw, seen)
    if UNKNOWN in seen:
        raise DataError(
            f"{directory}: class {UNKNOWN!r} is what the agent says where it has no answer; give it another name with "
            "labels.names, or leave those samples without a label"
        )
    named = list(dict.fromkeys(config.labels.names.values()))
    return tuple(name for name in named if name in seen) or tuple(sorted(seen))


def _refuse_measurements(directory: Path, raw: Sequence[RawRecording], seen: set[str]) -> None:
    samples = sum(int((one.labels != None).sum()) for one in raw)  # noqa: E711  # of each element
    if len(seen) > MANY_CLASSES and len(seen) * FEW_SAMPLES > samples:
        some = ", ".join(map(repr, sorted(seen)[:3]))
        raise DataError(
            f"{directory}: {len(seen):,} different labels in {samples:,} samples, such as {some}: "
            "labels.column must be a column of states, not of measurements"
        )


def _with_codes(raw: RawRecording, codes: dict[str, int]) -> Samples:
    labels = np.array([codes.get(label, UNLABELLED) for label in raw.labels], dtype=np.int64)
    return Samples(raw.name, raw.asset, raw.times_ns, raw.values, labels)


def _cut_all(recordings: RecordingSet, config: RecordingConfig) -> _OwnedWindows:
    cut = [cut_windows(recording, config, recordings.classes) for recording in recordings.recordings]
    owner = np.repeat(np.arange(len(cut)), [len(one.ends) for one in cut])
    parts = [
        np.concatenate([getattr(one, part) for one in cut]) for part in ("ends", "values", "mask", "labels", "mixed")
    ]
    return _OwnedWindows(LabelledWindows(*parts), owner.astype(np.int64))


def _split_flags(recordings: RecordingSet, owned: _OwnedWindows, config: RecordingConfig) -> tuple[Flags, Flags]:
    """Which windows are TRAIN and which are TEST; some are neither."""
    if config.split.by == "time":
        return _split_by_time(recordings, owned, config)
    names = [one.name if config.split.by == "recording" else one.asset for one in recordings.recordings]
    chosen = select_test(list(dict.fromkeys(names)), config.split)
    test = np.array([name in chosen for name in names], dtype=bool)[owned.owner]
    return ~test & ~_overlaps_test(recordings, owned, test, config), test


def _split_by_time(recordings: RecordingSet, owned: _OwnedWindows, config: RecordingConfig) -> tuple[Flags, Flags]:
    """Asset by asset, since assets may have been recorded in different years."""
    train, test = np.zeros(len(owned.owner), dtype=bool), np.zeros(len(owned.owner), dtype=bool)
    assets = _assets(recordings, owned)
    for asset in sorted(set(assets)):
        members = np.flatnonzero(assets == asset)
        train[members], test[members] = split_by_time(
            owned.windows.ends[members], length=config.window.length, test_share=config.split.test_share
        )
    return train, test


def _overlaps_test(recordings: RecordingSet, owned: _OwnedWindows, test: Flags, config: RecordingConfig) -> Flags:
    """Windows of the same asset and time as one of TEST: files may repeat each other's samples (SKAB's do)."""
    seen = np.zeros(len(owned.owner), dtype=bool)
    assets = _assets(recordings, owned)
    for asset in sorted(set(assets)):
        members = assets == asset
        seen[members] = overlaps_any(
            owned.windows.ends[members], owned.windows.ends[members & test], config.window.length
        )
    return seen


def _assets(recordings: RecordingSet, owned: _OwnedWindows) -> npt.NDArray[np.object_]:
    return np.array([one.asset for one in recordings.recordings], dtype=object)[owned.owner]


def _groups(recordings: RecordingSet, owner: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The group of each window: its recording, or the first of those that overlap it in time."""
    present = np.unique(owner)
    own = [recordings.recordings[at] for at in present]
    roots = group_overlapping([(one.asset, one.start, one.start + len(one.steps)) for one in own])
    return np.asarray(present[roots][np.searchsorted(present, owner)])


def _refuse_an_empty_part(
    name: str, recordings: RecordingSet, owned: _OwnedWindows, parts: tuple[Flags, Flags], config: RecordingConfig
) -> None:
    if not len(owned.owner):
        problem = "no recording holds a whole window with enough coverage and a label"
        asked = f"a window is {config.window.length:,} steps, {step_words(config.grid.period_ns / 1e9)}"
        raise DataError(f"{name}: {problem}; {_longest(recordings, config)}; {asked}")
    for part, flags in zip(("TRAIN", "TEST"), parts, strict=True):
        if not flags.any():
            raise DataError(f"{name}: the split leaves no window for {part}; shorten the window or change the split")


def _longest(recordings: RecordingSet, config: RecordingConfig) -> str:
    """What there is, to compare with the window that was asked for."""
    one = max(recordings.recordings, key=lambda recording: len(recording.steps))
    filled = float((~np.isnan(one.steps)).any(axis=1).mean())
    slow = "; where samples are slower than steps, take a longer period_s, or fill: hold and a smaller min_coverage"
    return (
        f"the longest, {one.name}, has {len(one.steps):,} steps, {filled:.0%} of them with a sample"
        f"{slow if 0 < filled < config.window.min_coverage else ''}"
    )


def _refuse_lost_classes(name: str, recordings: RecordingSet, owned: _OwnedWindows, train: Flags, test: Flags) -> None:
    in_train, in_test = set(owned.windows.labels[train]), set(owned.windows.labels[test])
    for label in sorted(in_test - in_train):
        raise DataError(
            f"{name}: class {recordings.classes[label]!r} is in TEST but not in TRAIN; "
            f"{_split_remedy(recordings, owned, label)}"
        )
    for label in sorted(set(range(len(recordings.classes))) - in_train):
        raise DataError(
            f"{name}: class {recordings.classes[label]!r} covers half of no TRAIN window; shorten the window, "
            "label short events with labels.rule: any, or give its samples another label with labels.names"
        )


def _split_remedy(recordings: RecordingSet, owned: _OwnedWindows, label: int) -> str:
    """A class of a single recording can only be in both parts where recordings are divided."""
    holders = sorted({recordings.recordings[at].name for at in owned.owner[owned.windows.labels == label]})
    if len(holders) == 1:
        return f"only recording {holders[0]} has it: take `split: {{by: time}}`, which divides every recording"
    return f"it is in {', '.join(holders[:SHOWN_NAMES])}: keep one of them out of split.test, or change test_share"


def _dataset(
    name: str, recordings: RecordingSet, owned: _OwnedWindows, config: RecordingConfig, flags: Flags
) -> Dataset:
    windows = owned.windows
    return Dataset(
        name=name,
        cases=Cases.from_windows(windows.values[flags], windows.mask[flags]),
        y=windows.labels[flags],
        classes=recordings.classes,
        channels=tuple(config.channels),
        units=tuple(channel.unit for channel in config.channels.values()),
        period_s=config.grid.period_ns / 1e9,
        groups=_groups(recordings, owned.owner[flags]),
        ends=windows.ends[flags],
        alignment=config.alignment,
        fill=tuple(config.fill_rules),
        origins=_origins(recordings, owned, config, flags),
    )


def _origins(recordings: RecordingSet, owned: _OwnedWindows, config: RecordingConfig, flags: Flags) -> Origins:
    names = np.array([one.name for one in recordings.recordings], dtype=object)[owned.owner[flags]]
    first = owned.windows.ends[flags] - config.window.length
    return Origins(names, first * config.grid.period_ns + config.grid.epoch_ns)
