"""Resamples one recording to the agent's event-time grid and cuts it into labelled windows. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anchormoe import windows
from anchormoe.data.recording_config import RecordingConfig
from anchormoe.errors import DataError

UNLABELLED = -1
MAX_STEPS = 50_000_000
COARSE = 0.1
"""Of a channel's standard deviation."""


@dataclass(frozen=True, slots=True)
class Samples:
    """A recording as it was written: times (n,), values (n, C) with NaN for missing, label codes (n,)."""

    name: str
    asset: str
    times_ns: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Recording:
    """On the grid from index `start`: steps (n, C) and label codes (n,). The counts are of samples."""

    name: str
    asset: str
    start: int
    steps: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]
    samples: int
    same_step: int
    """samples that share their step with an earlier one"""
    out_of_order: int
    """timestamps earlier than the one before"""
    coarse: tuple[int, ...] = ()
    """channels whose changes single precision cannot tell at their level, such as totals of a billion"""


@dataclass(frozen=True, slots=True)
class LabelledWindows:
    """Windows (B, C, T) with absolute `ends`; the label of a `mixed` one covers too little of it."""

    ends: npt.NDArray[np.int64]
    values: npt.NDArray[np.float32]
    mask: npt.NDArray[np.bool_]
    labels: npt.NDArray[np.int64]
    mixed: npt.NDArray[np.bool_]


def resample(samples: Samples, config: RecordingConfig) -> Recording:
    """Each sample goes to its nearest step; of two in one step the later in the file wins, channel by channel."""
    index = config.grid.index(samples.times_ns)
    _refuse_implausible_span(samples.name, index, config.grid.period_ns / 1e9)
    start, steps = windows.on_grid(index, samples.values.astype(np.float32))
    return Recording(
        name=samples.name,
        asset=samples.asset,
        start=start,
        steps=steps,
        labels=_labels_by_step(index - start, samples.labels, len(steps)),
        samples=len(index),
        same_step=len(index) - len(np.unique(index)),
        out_of_order=int((np.diff(samples.times_ns) < 0).sum()),
        coarse=_coarse_channels(samples.values),
    )


def cut_windows(recording: Recording, config: RecordingConfig, classes: Sequence[str]) -> LabelledWindows:
    """Every whole window with enough coverage and a label, by the rule of `config.labels`."""
    ends, raw = windows.cut(recording.start, recording.steps, config.shape)
    first = ends - config.window.length - recording.start
    codes = recording.labels[first[:, None] + np.arange(config.window.length)]  # (B, T)
    label = window_labels(codes, config, classes)
    covered = windows.coverage(~np.isnan(raw)) if len(raw) else np.zeros(0)
    kept = (label != UNLABELLED) & (covered >= config.window.min_coverage) & (covered > 0)
    values, mask = windows.fill(raw[kept], config.fill_rules)
    mixed = _label_share(codes[kept], label[kept]) < config.labels.least_share
    return LabelledWindows(ends[kept], values, mask, label[kept], mixed)


def window_labels(
    codes: npt.NDArray[np.int64], config: RecordingConfig, classes: Sequence[str]
) -> npt.NDArray[np.int64]:
    """The label of each row of steps (B, T), UNLABELLED where it has none."""
    if config.labels.rule == "majority":
        return majority(codes[:, -config.window.hop :], len(classes))
    if config.labels.rule == "last":
        return latest(codes)
    background = classes.index(config.labels.background) if config.labels.background in classes else UNLABELLED
    events = latest(np.where(codes == background, UNLABELLED, codes))
    return np.where(events == UNLABELLED, latest(codes), events)


def latest(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The last label of each row; UNLABELLED if there is none."""
    at = np.where(codes == UNLABELLED, -1, np.arange(codes.shape[1])).max(axis=1, initial=-1)
    found = np.take_along_axis(codes, np.maximum(at, 0)[:, None], axis=1)[:, 0] if codes.shape[1] else at
    return np.where(at < 0, UNLABELLED, found).astype(np.int64)


def majority(codes: npt.NDArray[np.int64], n_classes: int) -> npt.NDArray[np.int64]:
    """The most frequent label of each row; a tie goes to the label seen last; UNLABELLED if there is none."""
    steps = np.arange(1, codes.shape[1] + 1)
    hits = codes[:, :, None] == np.arange(n_classes)  # (B, T, Y)
    # The count decides; the position of the last occurrence, scaled below one, breaks ties.
    score = hits.sum(axis=1) + (hits * steps[:, None]).max(axis=1, initial=0) / (codes.shape[1] + 1)
    return np.where(hits.any(axis=(1, 2)), score.argmax(axis=1), UNLABELLED).astype(np.int64)


def _label_share(codes: npt.NDArray[np.int64], label: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    labelled = (codes != UNLABELLED).sum(axis=1)
    return np.asarray((codes == label[:, None]).sum(axis=1) / np.maximum(labelled, 1), dtype=np.float64)


def _coarse_channels(values: npt.NDArray[np.float64]) -> tuple[int, ...]:
    """By what rounding to single precision moves, beside what the values differ by."""
    found = []
    for channel, column in enumerate(values.T):
        own = column[~np.isnan(column)]
        moved = float(np.abs(own - own.astype(np.float32)).max(initial=0.0))
        if moved > COARSE * float(own.std() if len(own) else 0.0) > 0:
            found.append(channel)
    return tuple(found)


def _labels_by_step(step: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    codes = np.full(size, UNLABELLED, dtype=np.int64)
    given = labels != UNLABELLED
    codes[step[given]] = labels[given]
    return codes


def _refuse_implausible_span(name: str, index: npt.NDArray[np.int64], period_s: float) -> None:
    """One wrong timestamp can stretch a recording over centuries of empty steps."""
    span = int(index.max()) - int(index.min()) + 1
    if span > MAX_STEPS:
        row = int(np.abs(index - np.median(index)).argmax()) + 1
        spans = f"{name}: spans {span:,} steps of {period_s:g} s"
        raise DataError(f"{spans}; check the timestamp in row {row}, and window.period_s")
