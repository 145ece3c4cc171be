"""Time series cases with a validity mask: the input of every model. Pure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anchormoe.errors import DataError

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

Alignment = Literal["aligned", "sliding"]
"""`aligned`: events have their place in a case; `sliding`: windows are cut anywhere, so events may start anywhere."""


@dataclass(frozen=True, slots=True)
class Cases:
    """x (N, C, T), 0 where masked; mask (N, C, T), True where valid; lengths (N,).

    Steps at or beyond a case's length are padding: their mask is False. A step is valid if any channel is.
    """

    x: Float32
    mask: Bool
    lengths: Int64

    @classmethod
    def from_arrays(cls, X: Any) -> "Cases":
        """(N, C, T) or (N, T) array, or a sequence of (C, T_i) arrays; NaN is missing. Raises DataError."""
        series = _series(X)
        channels, steps = series[0].shape[0], max(one.shape[1] for one in series)
        x = np.zeros((len(series), channels, steps), np.float32)
        mask = np.zeros(x.shape, np.bool_)
        for index, one in enumerate(series):
            _fill(x[index], mask[index], one, f"case {index}")
        return cls(x, mask, np.array([one.shape[1] for one in series], np.int64))

    @classmethod
    def from_windows(cls, windows: Any, mask: Any) -> "Cases":
        """Windows (B, C, T) of full length with their mask; masked values are ignored. Raises DataError."""
        values, valid = np.asarray(windows, np.float32), np.asarray(mask)
        if values.ndim != 3 or values.shape != valid.shape or valid.dtype != np.bool_:
            raise DataError(
                f"windows {values.shape}: expected a boolean mask of the same shape, not {valid.dtype} {valid.shape}"
            )
        clean = np.where(valid, values, np.float32(0))
        if not np.isfinite(clean).all():
            raise DataError("windows contain values that are marked valid but not finite")
        return cls(clean, valid, np.full(len(values), values.shape[2], np.int64))

    def __len__(self) -> int:
        return len(self.x)

    @property
    def channels(self) -> int:
        return int(self.x.shape[1])

    @property
    def steps(self) -> int:
        """Length of the longest case, padding included."""
        return int(self.x.shape[2])

    @property
    def step_mask(self) -> Bool:
        """(N, T): True where any channel is valid."""
        return np.asarray(self.mask.any(axis=1))

    def subset(self, indices: Any) -> "Cases":
        """The cases at `indices` (integers, a slice or a boolean mask), with the same padding."""
        return Cases(self.x[indices], self.mask[indices], self.lengths[indices])

    def resized(self, steps: int) -> "Cases":
        """Padded at the end, or cut, to `steps`."""
        if steps == self.steps:
            return self
        x = np.zeros((len(self), self.channels, steps), np.float32)
        mask = np.zeros(x.shape, np.bool_)
        kept = min(steps, self.steps)
        x[:, :, :kept], mask[:, :, :kept] = self.x[:, :, :kept], self.mask[:, :, :kept]
        return Cases(x, mask, np.minimum(self.lengths, steps))


def fingerprint(cases: Cases, y: Int64) -> str:
    """sha256 over values, validity, lengths and labels: the same whatever file they came from."""
    digest = hashlib.sha256(repr((cases.x.shape, "<f4")).encode())
    for array, kind in ((cases.x, "<f4"), (cases.lengths, "<i8"), (y, "<i8")):
        digest.update(np.ascontiguousarray(array, kind).tobytes())
    digest.update(np.packbits(cases.mask).tobytes())
    return digest.hexdigest()


def rare_below(n_classes: int) -> float:
    """A class with a smaller share of the cases is rare: a tenth, or half of an equal share if that is less."""
    return min(0.1, 0.5 / n_classes)


def _series(X: Any) -> list[NDArray[Any]]:
    if isinstance(X, np.ndarray) and X.dtype != np.object_ and X.ndim not in (2, 3):
        raise DataError(f"expected an array of shape (cases, channels, steps), not {X.shape}")
    if isinstance(X, np.ndarray) and X.dtype != np.object_ and X.ndim == 2:
        X = X[:, None, :]
    if not isinstance(X, np.ndarray | Sequence):
        raise DataError(f"expected an array or a list of arrays, not {type(X).__name__}")
    series = [_one_series(one, index) for index, one in enumerate(X)]
    if not series:
        raise DataError("there are no cases")
    _refuse_unequal_channels(series)
    return series


def _one_series(one: Any, index: int) -> NDArray[Any]:
    try:
        if np.iscomplexobj(one):
            raise TypeError("complex")
        array = np.asarray(one, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"case {index}: expected numbers") from error
    array = array[None, :] if array.ndim == 1 else array
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(f"case {index}: expected shape (channels, steps), both at least 1, not {array.shape}")
    return array


def _refuse_unequal_channels(series: list[NDArray[Any]]) -> None:
    channels = series[0].shape[0]
    for index, one in enumerate(series):
        if one.shape[0] != channels:
            raise DataError(f"case {index} has {one.shape[0]} channels, case 0 has {channels}")


def _fill(x: Float32, mask: Bool, one: NDArray[Any], name: str) -> None:
    steps = one.shape[1]
    valid = ~np.isnan(one)
    with np.errstate(over="ignore"):
        values = np.where(valid, one, 0).astype(np.float32)
    if not np.isfinite(values).all():
        channel = int(np.argwhere(~np.isfinite(values))[0, 0])
        raise DataError(f"{name}, channel {channel}: a value is infinite or too large for float32")
    x[:, :steps], mask[:, :steps] = values, valid
