"""Labelled cases with what is known about them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anchormoe.cases import Alignment, Cases
from anchormoe.errors import DataError
from anchormoe.windows import FillRule


@dataclass(frozen=True, slots=True)
class Origins:
    """Where cases were cut: the recording of each (N,), and the time of its first step in nanoseconds UTC (N,)."""

    recordings: npt.NDArray[np.object_]
    start_ns: npt.NDArray[np.int64]

    def subset(self, chosen: npt.NDArray[np.int64]) -> "Origins":
        return Origins(self.recordings[chosen], self.start_ns[chosen])


@dataclass(frozen=True, slots=True)
class Dataset:
    """N cases. `y` (N,) indexes `classes`; `groups` (N,) numbers recordings; `ends` (N,) their ends, in steps."""

    name: str
    cases: Cases
    y: npt.NDArray[np.int64]
    classes: tuple[str, ...]
    channels: tuple[str, ...]
    units: tuple[str, ...]
    period_s: float | None = None
    groups: npt.NDArray[np.int64] | None = None
    ends: npt.NDArray[np.int64] | None = None
    truth: npt.NDArray[np.bool_] | None = None
    """(N, C, T) the values that decide the class, known for synthetic sets only"""
    alignment: Alignment = "aligned"
    fill: tuple[FillRule, ...] = ()
    """how missing values were filled, one rule per channel; empty where that is not known"""
    origins: Origins | None = None
    """None where the cases were not cut out of recordings"""

    def __post_init__(self) -> None:
        _refuse_mismatch(self)

    def __len__(self) -> int:
        return len(self.cases)

    @property
    def class_counts(self) -> npt.NDArray[np.int64]:
        """Cases per class, in the order of `classes`."""
        return np.bincount(self.y, minlength=len(self.classes)).astype(np.int64)

    def subset(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> "Dataset":
        """The cases at `indices`, in that order, with everything that belongs to them."""
        chosen = np.asarray(indices, dtype=np.int64)
        return Dataset(
            name=self.name,
            cases=self.cases.subset(chosen),
            y=self.y[chosen],
            classes=self.classes,
            channels=self.channels,
            units=self.units,
            period_s=self.period_s,
            groups=None if self.groups is None else self.groups[chosen],
            ends=None if self.ends is None else self.ends[chosen],
            truth=None if self.truth is None else self.truth[chosen],
            alignment=self.alignment,
            fill=self.fill,
            origins=None if self.origins is None else self.origins.subset(chosen),
        )


@dataclass(frozen=True, slots=True)
class Split:
    """TRAIN and TEST; `mixed` holds TEST windows whose label covers less than half of them, scored apart."""

    train: Dataset
    test: Dataset
    mixed: Dataset | None = None


def _refuse_mismatch(dataset: Dataset) -> None:
    size, channels = len(dataset.cases), dataset.cases.x.shape[1]
    if dataset.y.shape != (size,):
        raise DataError(f"{dataset.name}: {size} cases, labels of shape {dataset.y.shape}")
    if len(dataset.channels) != channels or len(dataset.units) != channels:
        raise DataError(
            f"{dataset.name}: {channels} channels, {len(dataset.channels)} names, {len(dataset.units)} units"
        )
    if dataset.truth is not None and dataset.truth.shape != dataset.cases.x.shape:
        raise DataError(f"{dataset.name}: truth has shape {dataset.truth.shape}, the cases {dataset.cases.x.shape}")
    if size and not 0 <= dataset.y.min() <= dataset.y.max() < len(dataset.classes):
        raise DataError(f"{dataset.name}: labels outside the {len(dataset.classes)} classes")
