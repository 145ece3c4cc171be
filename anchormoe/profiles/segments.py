"""TRAIN segments of one channel, as short curves of equal length that can be drawn and compared. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Bool, Float32, Float64, Int64
from anchormoe.errors import ModelError

POINTS = 32
"""Every segment is stored as so many values."""
MAX_SEGMENTS = 4096
"""In one bundle: about 650 kB."""
UNKNOWN_TIME = int(np.iinfo(np.int64).min)
UNKNOWN_RECORDING = -1
COLUMNS = ("expert", "channel", "case", "start", "stop", "label", "recording", "start_ns")


@dataclass(frozen=True, slots=True)
class Segments:
    """N segments, the columns (N,); `values` (N, POINTS) are raw, in the unit of the channel."""

    expert: Int64
    channel: Int64
    """the channel that was read; of several that were read together, the one furthest from its TRAIN mean"""
    case: Int64
    """number of the TRAIN case"""
    start: Int64
    stop: Int64
    """steps [start, stop) of the case"""
    label: Int64
    """the true class of the case"""
    recording: Int64
    """index of the recording's name, UNKNOWN_RECORDING where there are none"""
    start_ns: Int64
    """time of step `start`, UNKNOWN_TIME where there is none"""
    contribution: Float32
    """what the expert added here to the class that the model found"""
    values: Float32

    def __len__(self) -> int:
        return len(self.expert)

    def take(self, rows: Int64) -> "Segments":
        return Segments(*(getattr(self, name)[rows] for name in (*COLUMNS, "contribution", "values")))

    def tensors(self) -> dict[str, NDArray[Any]]:
        """For the bundle."""
        return {name: getattr(self, name) for name in (*COLUMNS, "contribution", "values")}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]], limits: Mapping[str, int]) -> "Segments":
        """Strict inverse of `tensors`; `limits` are the numbers of experts, channels, labels, recordings, steps.

        Raises ModelError, which does not name the file.
        """
        names = (*COLUMNS, "contribution", "values")
        if set(tensors) != set(names):
            raise ModelError(f"expected exactly the tensors {', '.join(names)}")
        size = len(tensors["expert"]) if tensors["expert"].ndim == 1 else -1
        if not 0 <= size <= MAX_SEGMENTS:
            raise ModelError(f"expert is {tensors['expert'].shape}, expected at most {MAX_SEGMENTS} segments")
        for name in names:
            kind = "int64" if name in COLUMNS else "float32"
            shape = (size, POINTS) if name == "values" else (size,)
            if tensors[name].dtype.name != kind or tensors[name].shape != shape:
                raise ModelError(f"{name} is {tensors[name].dtype} {tensors[name].shape}, expected {kind} {shape}")
        found = cls(**tensors)
        found._require_range(limits)
        return found

    def _require_range(self, limits: Mapping[str, int]) -> None:
        for name, least, below in (
            ("expert", 0, limits["experts"]), ("channel", 0, limits["channels"]), ("label", 0, limits["labels"]),
            ("recording", UNKNOWN_RECORDING, limits["recordings"]), ("case", 0, 1 << 40), ("start", 0, limits["steps"]),
        ):  # fmt: skip
            column = getattr(self, name)
            if len(column) and not least <= column.min() <= column.max() < below:
                raise ModelError(f"{name}: expected values from {least} to {below - 1}")
        if not ((self.stop > self.start) & (self.stop <= limits["steps"])).all():
            raise ModelError("stop: expected values above start, within the window")


def shorten(values: NDArray[Any], valid: Bool) -> Float32 | None:
    """POINTS values of a curve (n,): means of equal parts, or interpolated where it is shorter; gaps are bridged.

    None where less than half of it is valid, or a value is too large to average.
    """
    known = np.flatnonzero(valid)
    if not len(known) or 2 * len(known) < len(values):
        return None
    whole = np.interp(np.arange(len(values)), known, np.asarray(values, np.float64)[known])
    edges = np.linspace(0, len(whole), POINTS + 1)
    if len(whole) < POINTS:
        centres = (edges[:-1] + edges[1:]) / 2 - 0.5
        short = np.interp(centres, np.arange(len(whole)), whole)
    else:
        running = np.concatenate(([0.0], np.cumsum(whole)))
        sums = np.diff(np.interp(edges, np.arange(len(running)), running))
        short = sums / np.diff(edges)
    found = short.astype(np.float32)
    return found if np.isfinite(found).all() else None


def leading_run(evidence: Float64) -> tuple[int, int]:
    """Patches [first, stop) around the strongest one, with its sign and at least half of its strength."""
    peak = int(np.argmax(np.abs(evidence)))
    same = evidence * np.sign(evidence[peak]) >= abs(evidence[peak]) / 2
    apart = np.flatnonzero(~same)
    before, after = apart[apart < peak], apart[apart > peak]
    first = int(before[-1]) + 1 if len(before) else 0
    return first, int(after[0]) if len(after) else len(evidence)
