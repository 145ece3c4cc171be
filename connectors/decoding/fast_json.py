"""Typed JSON decoding in bulk; values are decoded one by one only when a batch has a bad one. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.decoding.readings import Indices, Rejections
from connectors.errors import RecordError
from connectors.timestamps import END_NS, NS_PER_UNIT, TimeReader, TimeUnit

REQUIRED = msgspec.NODEFAULT
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a decoder of msgspec raises for a value it does not accept."""

T = TypeVar("T")


def struct_type(fields: Sequence[tuple[str, Any, Any]], *, forbid_unknown: bool = False) -> Any:
    """`fields`: JSON name, type, default (or `REQUIRED`). The attributes are f0, f1 … in this order."""
    declared = [(f"f{i}", kind, default) for i, (_, kind, default) in enumerate(fields)]
    names = {f"f{i}": name for i, (name, _, _) in enumerate(fields)}
    return msgspec.defstruct(
        "Fields", declared, kw_only=True, rename=names, gc=False, forbid_unknown_fields=forbid_unknown
    )


def time_type(unit: TimeUnit) -> Any:
    """The type of a timestamp in JSON; the range makes the conversion to nanoseconds safe."""
    if unit == "iso":
        return str
    if unit == "ns":
        return Annotated[int, msgspec.Meta(ge=0, lt=END_NS)]
    return Annotated[float, msgspec.Meta(ge=0, lt=float(END_NS // NS_PER_UNIT[unit]))]


def decode_all(
    values: Sequence[bytes], decode: Callable[[bytes], T], explain: Callable[[bytes], None], rejections: Rejections
) -> tuple[list[T], Indices]:
    """The decoded values and their indices. Whether a value is accepted depends on itself alone, never on its batch.

    `decode` may raise a RecordError itself; its other errors are explained by `explain`.
    """
    try:
        return list(map(decode, values)), np.arange(len(values))
    except (*DECODE_ERRORS, RecordError):
        return _one_by_one(values, decode, explain, rejections)


def _one_by_one(
    values: Sequence[bytes], decode: Callable[[bytes], T], explain: Callable[[bytes], None], rejections: Rejections
) -> tuple[list[T], Indices]:
    good, indices = [], []
    for index, value in enumerate(values):
        try:
            good.append(decode(value))
            indices.append(index)
        except RecordError as error:
            rejections[index] = error
        except DECODE_ERRORS as error:
            rejections[index] = _reason(value, explain, error)
    return good, np.array(indices, dtype=np.int64)


def _reason(value: bytes, explain: Callable[[bytes], None], error: Exception) -> RecordError:
    """From `explain`, which reads the value slowly and raises; where it finds nothing wrong, from the decoder."""
    try:
        explain(value)
    except RecordError as explained:
        return explained
    unexplained = RecordError("not_json", str(error))
    unexplained.__cause__ = error
    return unexplained


def read_times(
    times: Sequence[Any] | NDArray[Any],
    reader: TimeReader,
    field: str,
    index: NDArray[np.int64],
    rejections: Rejections,
) -> NDArray[np.int64]:
    """`times` are of `time_type`; a bad ISO text is added to `rejections` and read as 0."""
    if reader.unit == "iso":
        return np.array(list(_iso_times(times, reader, field, index, rejections)), dtype=np.int64)
    if reader.unit == "ns":
        return np.array(times, dtype=np.int64)
    return epoch_ns(np.array(times, dtype=np.float64), reader.unit)


def _iso_times(
    times: Sequence[Any] | NDArray[Any],
    reader: TimeReader,
    field: str,
    index: NDArray[np.int64],
    rejections: Rejections,
) -> Iterator[int]:
    for where, text in zip(index.tolist(), times, strict=True):
        try:
            yield reader.read(text, field)
        except RecordError as error:
            rejections[where] = error
            yield 0


def epoch_ns(times: NDArray[np.float64] | NDArray[np.int64] | NDArray[np.uint64], unit: TimeUnit) -> NDArray[np.int64]:
    """Exact for whole numbers: the fraction is scaled apart. `times` must lie in [0, END_NS / unit)."""
    factor = NS_PER_UNIT[unit]
    if times.dtype != np.float64:
        return times.astype(np.int64) * factor
    whole = np.floor(times)
    nanoseconds: NDArray[np.int64] = whole.astype(np.int64) * factor
    nanoseconds += np.rint((times - whole) * factor).astype(np.int64)
    return nanoseconds
