"""Binary chunks: many samples of one asset as raw float32; docs/contracts/binary-chunk.md has every byte. Pure."""

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from connectors.decoding.chunked import regular_times
from connectors.decoding.fast_json import stacked
from connectors.decoding.readings import Columns, Rejections, Times
from connectors.errors import RecordError
from connectors.record_schema import GroupLayout, RecordFormat

MAGIC = b"AMC1"
VERSION = 1
HEADER = struct.Struct("<4sBBHIqq")


def encode_chunk(values: ArrayLike, *, start_ns: int, period_ns: int) -> bytes:
    """`values` (samples, channels) in the group's channel order, NaN = missing."""
    samples = np.ascontiguousarray(values, dtype="<f4")
    if samples.ndim != 2 or np.isinf(samples).any():
        raise ValueError("a chunk is a table of finite or missing values")
    header = HEADER.pack(MAGIC, VERSION, 0, samples.shape[1], samples.shape[0], start_ns, period_ns)
    return header + samples.tobytes()


class BinaryDecoder:
    """Decodes the records of one group. Time is in the chunk, the asset in the record's key."""

    def __init__(self, group: GroupLayout, format: RecordFormat) -> None:
        self._channels = len(group.channels)
        self._max_samples = format.max_samples

    def columns(self, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections) -> Columns:
        parts = []
        for index, value in enumerate(values):
            try:
                parts.append(self._rows(index, value))
            except RecordError as error:
                rejections[index] = error
        return stacked(parts, self._channels)

    def _rows(self, index: int, value: bytes) -> Columns:
        samples, start_ns, period_ns = self._header(value)
        numbers = np.frombuffer(value, dtype="<f4", offset=HEADER.size).reshape(samples, self._channels)
        return Columns(np.full(samples, index), regular_times(start_ns, period_ns, samples), numbers)

    def _header(self, value: bytes) -> tuple[int, int, int]:
        if len(value) < HEADER.size:
            raise RecordError("bad_chunk", f"{len(value)} bytes are less than a header of {HEADER.size}")
        magic, version, flags, channels, samples, start_ns, period_ns = HEADER.unpack_from(value)
        if (magic, version, flags) != (MAGIC, VERSION, 0):
            raise RecordError("bad_chunk", f"magic {magic!r}, version {version}, flags {flags}", field="magic")
        if channels != self._channels:
            raise RecordError("bad_chunk", f"{channels} channels; the group has {self._channels}", field="channels")
        self._check_samples(samples, len(value) - HEADER.size)
        return samples, start_ns, period_ns

    def _check_samples(self, samples: int, size: int) -> None:
        if samples == 0:
            raise RecordError("empty", "the chunk has no sample", field="samples")
        if samples > self._max_samples:
            raise RecordError("too_large", f"{samples} samples; the limit is {self._max_samples}", field="samples")
        if size != 4 * samples * self._channels:
            raise RecordError("bad_chunk", f"{size} bytes of data for {samples} samples", field="samples")
