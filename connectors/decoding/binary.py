"""Binary chunks: many samples of one asset as float32; see docs/contracts/binary-chunk.md. Pure."""

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from connectors.decoding.chunked import regular_times
from connectors.decoding.readings import RawReadings, Rejections, Times, concatenate
from connectors.errors import RecordError, list_names
from connectors.record_schema import GroupLayout, RecordFormat

MAGIC = b"AMC1"
VERSION = 1
HEADER = struct.Struct("<4sBBHIqq")


def encode_chunk(values: ArrayLike, *, start_ns: int, period_ns: int) -> bytes:
    """`values` (samples, channels) in the group's channel order, NaN = missing. Raises ValueError."""
    samples = np.ascontiguousarray(values, dtype="<f4")
    if samples.ndim != 2 or np.isinf(samples).any():
        raise ValueError("a chunk must be a table (samples, channels) of finite values or NaN")
    header = HEADER.pack(MAGIC, VERSION, 0, samples.shape[1], samples.shape[0], start_ns, period_ns)
    return header + samples.tobytes()


class BinaryDecoder:
    """Decodes the records of one group. The time is in the chunk, the asset is the record's key."""

    def __init__(self, group: GroupLayout, format: RecordFormat) -> None:
        self._group = f"group {group.name} has {len(group.channels)}: {list_names(c.name for c in group.channels)}"
        self._channels, self._grid_ns = len(group.channels), group.period_ns
        self._max_samples = format.max_samples

    def decode(self, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections) -> RawReadings:
        parts = []
        for index, value in enumerate(values):
            try:
                parts.append(self._rows(index, value))
            except RecordError as error:
                rejections[index] = error
        return concatenate(parts, self._channels)

    def _rows(self, index: int, value: bytes) -> RawReadings:
        samples, start_ns, period_ns = self._header(value)
        numbers = np.frombuffer(value, dtype="<f4", offset=HEADER.size).reshape(samples, self._channels)
        times = regular_times(start_ns, period_ns, samples, grid_ns=self._grid_ns, field="period_ns")
        return RawReadings(np.full(samples, index), times, numbers)

    def _header(self, value: bytes) -> tuple[int, int, int]:
        if len(value) < HEADER.size:
            raise RecordError("bad_chunk", f"{len(value)} bytes; the header alone has {HEADER.size}")
        magic, version, flags, channels, samples, start_ns, period_ns = HEADER.unpack_from(value)
        if (magic, version, flags) != (MAGIC, VERSION, 0):
            seen = f"magic {magic!r}, version {version}, flags {flags}"
            hint = "; it looks like JSON, records.format is binary" if value[:1] in (b"{", b"[") else ""
            detail = f"{seen}; expected magic {MAGIC!r}, version {VERSION}, flags 0{hint}"
            raise RecordError("bad_chunk", detail, field="magic")
        if channels != self._channels:
            raise RecordError("bad_chunk", f"{channels} channels; {self._group}", field="channels")
        self._check_samples(samples, len(value) - HEADER.size)
        return samples, start_ns, period_ns

    def _check_samples(self, samples: int, size: int) -> None:
        if samples == 0:
            raise RecordError("empty", "the chunk has no samples", field="samples")
        if samples > self._max_samples:
            detail = f"{samples} samples; records.max_samples is {self._max_samples}"
            raise RecordError("too_large", detail, field="samples")
        if size != 4 * samples * self._channels:
            needed = f"{samples} samples of {self._channels} channels need {4 * samples * self._channels}"
            raise RecordError("bad_chunk", f"{size} bytes of values; {needed}", field="samples")
