"""Record batches written by hand: what a client library would not write, but a broker may hold."""

import gzip
import struct
from collections.abc import Sequence

from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

RawHeaders = Sequence[tuple[bytes, bytes | None]]


def raw_record(delta: int, key: bytes | None, value: bytes | None, headers: RawHeaders = ()) -> bytes:
    body = b"\x00" + varint(0) + varint(delta) + _bytes(key) + _bytes(value) + varint(len(headers))
    body += b"".join(_bytes(name) + _bytes(text) for name, text in headers)
    return varint(len(body)) + body


def raw_batch(
    records: Sequence[bytes],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    codec: int = 0,
    attributes: int = 0,
    last: int | None = None,
    producer: int = -1,
) -> bytes:
    """Message format 2 with a right checksum. `last` is the delta of the last offset, also where compaction took it."""
    payload = b"".join(records)
    if codec == 1:
        payload = gzip.compress(payload)
    last = len(records) - 1 if last is None else last
    covered = struct.pack(">hiqq", codec | attributes, last, timestamp_ms, timestamp_ms)
    covered += struct.pack(">qhii", producer, -1, -1, len(records))
    covered += payload
    after_length = struct.pack(">ibI", -1, 2, calc_crc32c(covered)) + covered
    return struct.pack(">qi", base_offset, len(after_length)) + after_length


def raw_messages(magic: int, first: int, values: Sequence[bytes], *, timestamp_ms: int, codec: int = 0) -> bytes:
    """Message formats 0 and 1: a message for each value, or one around them all, which has the last offset."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for at, value in enumerate(values):
        builder.append(at if codec and magic else first + at, timestamp_ms, b"k", value)
    built = bytes(builder.build())
    return struct.pack(">q", first + len(values) - 1) + built[8:] if codec else built


async def produce_raw(bootstrap: str, topic: str, batch: bytes, *, partition: int = 0) -> None:
    client = AIOKafkaClient(bootstrap_servers=bootstrap)
    await client.bootstrap()
    try:
        await client.set_topics([topic])
        node = client.cluster.leader_for_partition(TopicPartition(topic, partition))
        request = ProduceRequest(
            required_acks=-1, timeout=10_000, topics=[(topic, [(partition, batch)])], transactional_id=None
        )
        response = await client.send(node, request)
        [(_, [(_, code, *_)])] = response.topics
        assert code == 0, response
    finally:
        await client.close()


def varint(number: int) -> bytes:
    zigzag, out = (number << 1) ^ (number >> 63), bytearray()
    while zigzag & ~0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _bytes(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data
