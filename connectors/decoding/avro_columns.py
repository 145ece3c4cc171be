"""Reads Avro records field by field over a whole batch: one pass of numpy per field, no loop over records. Pure.

Only what has no fixed place (arrays, maps, wide unions) is stepped over record by record.

Each record has its own place in one joined buffer and its own end, so that a damaged one cannot touch its neighbours.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from connectors.decoding.avro_nested import BadValueError, Node, length_of
from connectors.decoding.avro_schema import Step
from connectors.errors import RecordError

_PADDING = 16
_VARINT_BYTES = 10


class ColumnReader:
    """A cursor per record. After an error a record's cursor stands still, and its first error is kept."""

    def __init__(self, bodies: Sequence[bytes]) -> None:
        sizes = np.fromiter(map(len, bodies), np.int64, len(bodies))
        self._end = np.cumsum(sizes)
        self._at = self._end - sizes
        self._begin = self._at.copy()
        self._buffer = np.frombuffer(b"".join(bodies) + bytes(_PADDING), np.uint8)
        self.errors: dict[int, RecordError] = {}
        self._good = np.ones(len(bodies), bool)

    def read(self, step: Step, *, wanted: bool) -> NDArray[np.float64] | NDArray[np.int64] | None:
        """The column of a field: NaN where it is null; for text its start in the buffer and its length, -1 for null.

        None where it is not wanted, or has nothing to give.
        """
        if step.nested is not None:
            self._step_over(step, step.nested)
            return None
        present = self._present(step)
        if step.kind in ("int", "long", "enum"):
            return self._integers(step, present)
        if step.kind in ("float", "double"):
            return self._floats(step, present, wanted=wanted)
        if step.kind in ("string", "bytes"):
            return self._text(step, present)
        if step.kind == "boolean":
            value = self._byte(present, step)
            self._fail(present & (value > 1), step, "is a boolean other than 0 and 1")
        elif step.kind == "fixed":
            self._advance(present, np.int64(step.size), step)
        return None

    def finish(self) -> None:
        """An encoder leaves nothing over."""
        for row in np.flatnonzero(self._good & (self._at != self._end)).tolist():
            over = int(self._end[row] - self._at[row])
            self.errors[row] = RecordError("bad_avro", f"{over} bytes are left over after the last field")

    def text(self, start: int, length: int) -> bytes:
        return self._buffer[start : start + length].tobytes()

    def _step_over(self, step: Step, nested: Node) -> None:
        wrong: dict[str, list[int]] = {}
        for row in np.flatnonzero(self._good).tolist():
            try:
                self._at[row] += length_of(nested, self._buffer[self._at[row] : self._end[row]].tobytes())
            except BadValueError as error:
                wrong.setdefault(str(error), []).append(row)
        for what, rows in wrong.items():
            self._fail(np.isin(np.arange(len(self._at)), rows), step, what)

    def _present(self, step: Step) -> NDArray[np.bool_]:
        if step.null_branch is None:
            return self._good
        branch = self._varint(self._good, step)
        self._fail(self._good & ((branch < 0) | (branch > 1)), step, "has a branch that its union does not have")
        present: NDArray[np.bool_] = self._good & (branch != step.null_branch)
        return present

    def _integers(self, step: Step, present: NDArray[np.bool_]) -> NDArray[np.int64]:
        number = self._varint(present, step)
        if step.kind == "int":
            self._fail(present & (number != number.astype(np.int32)), step, "does not fit into an int")
        if step.kind == "enum":
            self._fail(
                present & ((number < 0) | (number >= step.size)), step, "is a symbol that its enum does not have"
            )
        self._missing = ~present
        return number

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Of the integers read last: where they were null."""
        return self._missing

    def _floats(self, step: Step, present: NDArray[np.bool_], *, wanted: bool) -> NDArray[np.float64] | None:
        size = 4 if step.kind == "float" else 8
        at = self._at.copy()
        present = self._advance(present, np.int64(size), step)
        if not wanted:
            return None
        places = np.minimum(at, len(self._buffer) - _PADDING)[:, None] + np.arange(size)
        found = np.ascontiguousarray(self._buffer[places]).view("<f4" if size == 4 else "<f8")[:, 0]
        with np.errstate(invalid="ignore"):  # a NaN that signals is a missing value like any other
            return np.where(present, found.astype(np.float64), np.nan)

    def _text(self, step: Step, present: NDArray[np.bool_]) -> NDArray[np.int64]:
        length = self._varint(present, step)
        self._fail(present & (length < 0), step, "has a negative length")
        start = self._at.copy()
        present = self._advance(present & self._good, length, step)
        return np.stack([start, np.where(present, length, -1)], axis=1)

    def _byte(self, present: NDArray[np.bool_], step: Step) -> NDArray[np.int64]:
        at = np.minimum(self._at, len(self._buffer) - 1)
        self._advance(present, np.int64(1), step)
        found: NDArray[np.int64] = self._buffer[at].astype(np.int64)
        return found

    def _advance(self, present: NDArray[np.bool_], size: NDArray[np.int64] | np.int64, step: Step) -> NDArray[np.bool_]:
        """The records that had as many bytes. Compares with what is left: the sum with a huge size would overflow."""
        short = present & (size > self._end - self._at)
        self._fail(short, step, "is cut off")
        present = present & ~short
        self._at = np.where(present, self._at + np.where(present, size, 0), self._at)
        return present

    def _varint(self, present: NDArray[np.bool_], step: Step) -> NDArray[np.int64]:
        """Zigzag, at most ten bytes; 0 where there is none."""
        value = np.zeros(len(self._at), np.uint64)
        open_, at = present.copy(), self._at.copy()
        for number in range(_VARINT_BYTES):
            short = open_ & (at >= self._end)
            if short.any():
                self._fail(short, step, "is cut off")
                open_ &= ~short
            byte = self._buffer[np.minimum(at, len(self._buffer) - 1)]
            if number == _VARINT_BYTES - 1:
                self._fail(open_ & (byte > 1), step, "is an integer of more than 64 bits")
            bits = np.where(open_, byte & 0x7F, 0).astype(np.uint64)
            value |= bits << np.uint64(7 * number)
            at += open_
            open_ = open_ & (byte >= 0x80)
            if not open_.any():
                break
        self._at = np.where(self._good, at, self._at)
        return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)

    def _fail(self, rows: NDArray[np.bool_], step: Step, what: str) -> None:
        if not rows.any():
            return
        for row in np.flatnonzero(rows & self._good).tolist():
            byte = int(self._at[row] - self._begin[row])
            self.errors[row] = RecordError("bad_avro", f"{step.name} at byte {byte} {what}", field=step.path[-1])
        self._good = self._good & ~rows
