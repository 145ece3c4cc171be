"""Decoders for compressed record batches that unpack no further than a limit, and their place in aiokafka.

aiokafka unpacks a batch whole: 300 kB of gzip may become 300 MB, a megabyte of zstd gigabytes, and the batch is still
there when the agent that it killed starts again. These give what aiokafka's decoders give, except for such batches.
"""

import gzip
import io
import mmap
import struct
import sys
import threading
import zlib
from typing import Any

from aiokafka import codec

_MIB = 1024 * 1024
MOST_BYTES = 64 * _MIB
"""Of one batch, and about of one fetched piece of log. A producer closes a batch by its packed size, 16 kB to 1 MB, and
`max.message.bytes` is 1 MB: what is unpacked beyond this had a ratio of 64 and more in the largest batch there is, and
of thousands in usual ones. There is no bound for the ratio itself: batches of a plant at rest have hundreds."""
MOST_TIMES = 32
"""Where a topic allows batches of many megabytes, they may be unpacked as far as ordinary ones are."""
_KEPT_BYTES = 4 * _MIB
"""Pages of a batch that was larger than any ordinary one go back to the kernel."""
_WINDOW_BITS_OF_GZIP = 31
_FULL = "failed to write whole buffer"
"""What cramjam says where the bytes do not fit into the buffer that it was given."""
_XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
_LENGTH = struct.Struct(">i")
_READERS = ("default_records", "legacy_records", "_crecords.default_records", "_crecords.legacy_records")
"""Modules of aiokafka that hold the decoders under their own names, and look them up there for each batch."""

Packed = bytes | bytearray | memoryview


class BatchTooLargeError(ValueError):
    """A compressed batch has more in it than is unpacked."""

    def __init__(self, packed: int, limit: int) -> None:
        super().__init__(f"the batch of {packed} compressed bytes unpacks to more than {limit}")


class _Thread(threading.local):
    """What was unpacked, and the pages that it was unpacked into.

    The kernel gives a page where something is written first. Ordinary batches find theirs in place: to get them again
    for each batch costs more than to unpack it.
    """

    unpacked = 0
    _room: mmap.mmap | None = None

    def room_of(self, size: int) -> mmap.mmap:
        if self._room is None or len(self._room) != size:
            self._room = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return self._room

    def drop_room(self) -> None:
        if self._room is not None:
            self._room.close()
        self._room = None


_thread = _Thread()


class BoundedPiece:
    """The batches of a fetched piece of log, until `MOST_BYTES` were unpacked: thousands of bombs fit into one piece.

    To the fetcher it looks like a shorter piece: it fetches the rest once its user has the records. The first batch
    comes in any case. What other readers of the thread unpack meanwhile counts as well, and only costs a fetch.
    """

    def __init__(self, batches: Any) -> None:
        self._batches = batches
        self._begun: int | None = None

    def has_next(self) -> bool:
        is_full = self._begun is not None and _thread.unpacked - self._begun >= MOST_BYTES
        return not is_full and bool(self._batches.has_next())

    def next_batch(self) -> Any:
        if self._begun is None:
            self._begun = _thread.unpacked
        return self._batches.next_batch()


def unpacked_bytes() -> int:
    """How much this thread has unpacked so far."""
    return _thread.unpacked


def install() -> None:
    """Replaces the decoders of every reader of this process. Calling it again changes nothing."""
    for name in _READERS:
        module = sys.modules.get(f"aiokafka.record.{name}")
        for decoder in (gzip_decode, snappy_decode, lz4_decode, zstd_decode):
            if hasattr(module, decoder.__name__):
                setattr(module, decoder.__name__, decoder)


def gzip_decode(packed: Packed) -> bytes:
    """Raises BatchTooLargeError, and what the standard library's gzip raises."""
    limit = _limit(packed)
    unpacker = zlib.decompressobj(_WINDOW_BITS_OF_GZIP)
    try:
        data = unpacker.decompress(packed, limit + 1)
        whole = unpacker.eof and not unpacker.unused_data
    except zlib.error:
        data, whole = b"", False
    if not whole and len(data) <= limit:  # several members, zeros behind them, or damage: the library knows the rules
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as members:
            data = members.read(limit + 1)
    if len(data) > limit:
        raise _refusal(packed, limit)
    return _counted(data)


def snappy_decode(packed: Packed) -> bytes:
    """Raises BatchTooLargeError, ValueError, and what cramjam raises."""
    data, limit = memoryview(packed), _limit(packed)
    if len(data) <= len(_XERIAL) or data[: len(_XERIAL)] != _XERIAL:
        return _counted(_snappy_block(data, packed, limit))
    at, blocks, left = len(_XERIAL), list[bytes](), limit
    while at < len(data):
        [length] = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if length < 0:  # the same bytes would be read again, for ever
            raise ValueError(f"a snappy block of {length} bytes")
        blocks.append(_snappy_block(data[at : at + length], packed, left))
        at, left = at + length, left - len(blocks[-1])
    return _counted(b"".join(blocks))


def lz4_decode(packed: Packed) -> bytes:
    """Raises BatchTooLargeError, and what cramjam raises."""
    return _unpack_into(_cramjam().lz4, packed)


def zstd_decode(packed: Packed) -> bytes:
    """Raises BatchTooLargeError, and what cramjam raises."""
    return _unpack_into(_cramjam().zstd, packed)


def _limit(packed: Packed) -> int:
    return max(MOST_BYTES, MOST_TIMES * len(packed))


def _snappy_block(block: memoryview, packed: Packed, left: int) -> bytes:
    """The block says its size itself, and cramjam believes it."""
    snappy = _cramjam().snappy
    if snappy.decompress_raw_len(block) > left:
        raise _refusal(packed, _limit(packed))
    return bytes(snappy.decompress_raw(block))


def _unpack_into(library: Any, packed: Packed) -> bytes:
    """The size that the bytes state is not used."""
    limit = _limit(packed)
    room = _thread.room_of(limit)
    try:
        size = library.decompress_into(packed, room)
    except Exception as error:
        _thread.drop_room()
        if _FULL in str(error):
            raise _refusal(packed, limit) from None
        raise
    data = room[:size]
    if size > _KEPT_BYTES:
        _thread.drop_room()
    return _counted(data)


def _refusal(packed: Packed, limit: int) -> BatchTooLargeError:
    """Counts as the work that it was: a megabyte of bombs in one piece would keep the loop from its heartbeats."""
    _thread.unpacked += limit
    return BatchTooLargeError(len(packed), limit)


def _counted(data: bytes) -> bytes:
    _thread.unpacked += len(data)
    return data


def _cramjam() -> Any:
    if codec.cramjam is None:
        raise NotImplementedError("snappy, lz4 and zstd need the package cramjam")
    return codec.cramjam
