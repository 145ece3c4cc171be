"""Users' own recordings: files of samples in, labelled windows split honestly out; cut exactly as the agent cuts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset, Split
from anchormoe.data.recording_config import RecordingConfig, read_config
from anchormoe.data.recording_files import Piece, read_pieces
from anchormoe.data.resampling import UNLABELLED, CutWindows, Recording, Samples, cut, on_grid
from anchormoe.data.splitting import chosen_for_test, grouped, overlapping, split_by_time, time_blocks
from anchormoe.errors import DataError


@dataclass(frozen=True, slots=True)
class Archive:
    """All recordings of a directory on the grid, in order of time, and the classes their labels name."""

    recordings: tuple[Recording, ...]
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Pile:
    """The windows of all recordings; `owner` indexes the recording of each."""

    windows: CutWindows
    owner: npt.NDArray[np.int64]


def load_recordings(directory: Path, *, config: Path | None) -> Split:
    """Read, resample, cut and split the recordings below `directory` as the configuration says. Raises DataError."""
    settings = read_config(config)
    archive = read_archive(directory, settings)
    return split_windows(directory.name, archive, settings)


def read_archive(directory: Path, config: RecordingConfig) -> Archive:
    """Every recording on the grid, with the classes that occur."""
    raw = read_pieces(directory, config)
    classes = _classes(directory, raw, config)
    codes = {name: at for at, name in enumerate(classes)}
    placed = [on_grid(_coded(piece, codes), config) for piece in raw]
    return Archive(tuple(sorted(placed, key=lambda one: (one.start, one.name))), classes)


def split_windows(name: str, archive: Archive, config: RecordingConfig) -> Split:
    """TRAIN without mixed windows, TEST without, and TEST's mixed ones apart."""
    pile = _pile(archive, config)
    train, test = _flags(archive, pile, config)
    mixed = pile.windows.mixed
    _refuse_an_empty_part(name, archive, pile, train & ~mixed, test & ~mixed)
    groups, kept = _train_groups(archive, pile, config, train & ~mixed)
    _refuse_lost_classes(name, archive, pile, kept, test & ~mixed)
    return Split(
        train=replace(_dataset(name, archive, pile, config, kept), groups=groups),
        test=_dataset(name, archive, pile, config, test & ~mixed),
        mixed=_dataset(name, archive, pile, config, test & mixed) if (test & mixed).any() else None,
    )


def _train_groups(
    archive: Archive, pile: _Pile, config: RecordingConfig, train: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The group of each window of TRAIN, and which windows those are: few recordings are cut into blocks of time."""
    own = np.flatnonzero(train)
    groups, kept = time_blocks(_groups(archive, pile.owner[own]), pile.windows.ends[own], length=config.window.length)
    flags = np.zeros(len(train), dtype=bool)
    flags[own[kept]] = True
    return groups[kept], flags


def _classes(directory: Path, pieces: Sequence[Piece], config: RecordingConfig) -> tuple[str, ...]:
    """In the order of `labels.names`; without it sorted, so that they do not depend on the order of files."""
    seen = {label for piece in pieces for label in piece.labels if label is not None}
    if not seen:
        raise DataError(f"{directory}: no sample has a label; look at labels in the configuration")
    if len(seen) < 2:
        raise DataError(f"{directory}: every label is {min(seen)!r}; at least two classes are needed")
    named = list(dict.fromkeys(config.labels.names.values()))
    return tuple(name for name in named if name in seen) or tuple(sorted(seen))


def _coded(piece: Piece, codes: dict[str, int]) -> Samples:
    labels = np.array([codes.get(label, UNLABELLED) for label in piece.labels], dtype=np.int64)
    return Samples(piece.name, piece.asset, piece.times_ns, piece.values, labels)


def _pile(archive: Archive, config: RecordingConfig) -> _Pile:
    pieces = [cut(recording, config, len(archive.classes)) for recording in archive.recordings]
    owner = np.repeat(np.arange(len(pieces)), [len(piece.ends) for piece in pieces])
    together = [
        np.concatenate([getattr(piece, part) for piece in pieces])
        for part in ("ends", "values", "mask", "labels", "share")
    ]
    return _Pile(CutWindows(*together), owner.astype(np.int64))


def _flags(
    archive: Archive, pile: _Pile, config: RecordingConfig
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    if config.split.by == "time":
        return _flags_by_time(archive, pile, config)
    names = [one.name if config.split.by == "recording" else one.asset for one in archive.recordings]
    chosen = chosen_for_test(list(dict.fromkeys(names)), config.split)
    test = np.array([name in chosen for name in names], dtype=bool)[pile.owner]
    return ~test & ~_seen_in_test(archive, pile, test, config), test


def _seen_in_test(
    archive: Archive, pile: _Pile, test: npt.NDArray[np.bool_], config: RecordingConfig
) -> npt.NDArray[np.bool_]:
    """Windows at the same time and asset as one of TEST: files may repeat each other's samples (SKAB's do)."""
    seen = np.zeros(len(pile.owner), dtype=bool)
    assets = _assets(archive, pile)
    for asset in sorted(set(assets)):
        own = assets == asset
        seen[own] = overlapping(pile.windows.ends[own], pile.windows.ends[own & test], config.window.length)
    return seen


def _assets(archive: Archive, pile: _Pile) -> npt.NDArray[np.object_]:
    return np.array([one.asset for one in archive.recordings], dtype=object)[pile.owner]


def _flags_by_time(
    archive: Archive, pile: _Pile, config: RecordingConfig
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Asset by asset, since assets may have been recorded in different years."""
    train, test = np.zeros(len(pile.owner), dtype=bool), np.zeros(len(pile.owner), dtype=bool)
    assets = _assets(archive, pile)
    for asset in sorted(set(assets)):
        own = np.flatnonzero(assets == asset)
        train[own], test[own] = split_by_time(
            pile.windows.ends[own], length=config.window.length, test_share=config.split.test_share
        )
    return train, test


def _groups(archive: Archive, owner: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The group of each window: its recording, or the first of those that overlap it in time."""
    present = np.unique(owner)
    own = [archive.recordings[at] for at in present]
    roots = grouped([(one.asset, one.start, one.start + len(one.steps)) for one in own])
    return np.asarray(present[roots][np.searchsorted(present, owner)])


def _refuse_an_empty_part(
    name: str, archive: Archive, pile: _Pile, train: npt.NDArray[np.bool_], test: npt.NDArray[np.bool_]
) -> None:
    if not len(pile.owner):
        raise DataError(f"{name}: no recording holds a whole window with enough coverage and a label; {_pace(archive)}")
    for part, flags in (("TRAIN", train), ("TEST", test)):
        if not flags.any():
            raise DataError(f"{name}: the split leaves {part} without a window; shorten the window or change the split")


def _pace(archive: Archive) -> str:
    """What there is, to compare with the window that was asked for."""
    longest = max(archive.recordings, key=lambda one: len(one.steps))
    filled = float((~np.isnan(longest.steps)).any(axis=1).mean())
    return f"the longest, {longest.name}, has {len(longest.steps):,} steps, {filled:.0%} of them with a sample"


def _refuse_lost_classes(
    name: str, archive: Archive, pile: _Pile, train: npt.NDArray[np.bool_], test: npt.NDArray[np.bool_]
) -> None:
    there, asked = set(pile.windows.labels[train]), set(pile.windows.labels[test])
    for label in sorted(asked - there):
        raise DataError(f"{name}: class {archive.classes[label]!r} is in TEST but not in TRAIN; change the split")
    for label in sorted(set(range(len(archive.classes))) - there):
        raise DataError(
            f"{name}: class {archive.classes[label]!r} fills no window of TRAIN by half; shorten the window, "
            "or give its samples another label with labels.names"
        )


def _dataset(
    name: str, archive: Archive, pile: _Pile, config: RecordingConfig, flags: npt.NDArray[np.bool_]
) -> Dataset:
    windows = pile.windows
    return Dataset(
        name=name,
        cases=Cases.from_windows(windows.values[flags], windows.mask[flags]),
        y=windows.labels[flags],
        classes=archive.classes,
        channels=tuple(config.channels),
        units=tuple(channel.unit for channel in config.channels.values()),
        period_s=config.window.period_s,
        groups=_groups(archive, pile.owner[flags]),
        alignment=config.alignment,
        fill=tuple(config.fill_rules),
    )
