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
"""In one bundle: about 650 kB, 900 kB with their looks, and at most 1 MB more with their evidence."""
MAX_CLASSES = 64
"""With more classes the evidence of segments is not stored."""
QUANTILES = 8
LOOK = 2 * QUANTILES
_LARGEST = float(np.finfo(np.float32).max)
UNKNOWN_TIME = int(np.iinfo(np.int64).min)
UNKNOWN_RECORDING = -1
COLUMNS = ("expert", "channel", "case", "start", "stop", "label", "recording", "start_ns")
_ALWAYS = (*COLUMNS, "contribution", "values")
_LATER = ("look", "evidence")
"""Bundles from before evidence by example was ranked by them have neither."""


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
    look: Float32 | None = None
    """(N, LOOK) quantiles of the values, then of their changes from step to step, in the unit of the channel"""
    evidence: Float32 | None = None
    """(N, Y) what the model read there: the evidence of these steps of these channels for each class"""

    def __len__(self) -> int:
        return len(self.expert)

    def take(self, rows: Int64) -> "Segments":
        return Segments(**{name: found[rows] for name, found in self.tensors().items()})

    def tensors(self) -> dict[str, NDArray[Any]]:
        """For the bundle."""
        return {name: getattr(self, name) for name in (*_ALWAYS, *_LATER) if getattr(self, name) is not None}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]], limits: Mapping[str, int]) -> "Segments":
        """Strict inverse of `tensors`; `limits` are the numbers of experts, channels, labels, recordings, steps.

        Raises ModelError, which does not name the file.
        """
        if not set(_ALWAYS) <= set(tensors) <= {*_ALWAYS, *_LATER}:
            raise ModelError(f"expected exactly the tensors {', '.join(_ALWAYS)}, with or without {', '.join(_LATER)}")
        size = len(tensors["expert"]) if tensors["expert"].ndim == 1 else -1
        if not 0 <= size <= MAX_SEGMENTS:
            raise ModelError(f"expert is {tensors['expert'].shape}, expected at most {MAX_SEGMENTS} segments")
        wide = {"values": POINTS, "look": LOOK, "evidence": limits["labels"]}
        for name, found in tensors.items():
            kind = "int64" if name in COLUMNS else "float32"
            shape = (size, wide[name]) if name in wide else (size,)
            if found.dtype.name != kind or found.shape != shape:
                raise ModelError(f"{name} is {found.dtype} {found.shape}, expected {kind} {shape}")
        segments = cls(**tensors)
        segments._require_range(limits)
        return segments

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


def look_at(values: NDArray[Any], valid: Bool) -> Float32 | None:
    """(LOOK,) of a curve (n,): QUANTILES of its values and of their changes. An oscillation has the same look wherever
    it begins. None with fewer than two valid values, or where less than half of it is valid."""
    known = np.flatnonzero(valid)
    if len(known) < 2 or 2 * len(known) < len(values):
        return None
    own = np.asarray(values, np.float64)[known]
    found = np.concatenate((_quantiles(own), _quantiles(np.diff(own) / np.diff(known))))
    return found.astype(np.float32) if np.abs(found).max() < _LARGEST else None


def _quantiles(values: Float64) -> Float64:
    ordered = np.sort(values)
    places = (np.arange(QUANTILES) + 0.5) / QUANTILES * len(ordered) - 0.5
    return np.asarray(np.interp(places, np.arange(len(ordered)), ordered))


def leading_run(evidence: Float64) -> tuple[int, int]:
    """Patches [first, stop) around the strongest one, with its sign and at least half of its strength."""
    peak = int(np.argmax(np.abs(evidence)))
    same = evidence * np.sign(evidence[peak]) >= abs(evidence[peak]) / 2
    apart = np.flatnonzero(~same)
    before, after = apart[apart < peak], apart[apart > peak]
    first = int(before[-1]) + 1 if len(before) else 0
    return first, int(after[0]) if len(after) else len(evidence)
