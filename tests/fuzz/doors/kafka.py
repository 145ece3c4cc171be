"""The door for Kafka's record batches: what the client cannot decode is read tolerantly, and every offset is told."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from agent.dead_letters.letter import dead_letter
from connectors.decoding import Decoder
from connectors.kafka.record_batch import TolerantBatches
from connectors.record_schema import RecordFormat
from connectors.records import Batch, Partition, RecordLike, RejectedRecord
from tests.fuzz.cases import Input, Outcome, shape
from tests.fuzz.doors.record_bytes import RecordWriter
from tests.fuzz.doors.record_variants import Variant, variants
from tests.fuzz.mutation import mutate_bytes

_TOPIC = Partition("readings", 0)
_CODECS = {"plain": 0, "gzip": 1}
_HEADER_BYTES = 61
_CRC_AT, _CRC_COVERS = 17, 21
_FIELDS = {"base_offset": (0, 8), "length": (8, 4), "epoch": (12, 4), "magic": (16, 1), "crc": (17, 4),
           "attributes": (21, 2), "last_delta": (23, 4), "first_ms": (27, 8), "max_ms": (35, 8),
           "producer": (43, 8), "producer_epoch": (51, 2), "sequence": (53, 4), "count": (57, 4)}  # fmt: skip
_WORDS = (0, 1, -1, 2, 127, 128, 255, 65_535, 2**31 - 1, -(2**31), 10_000, 10_001, 2**62, 2**63 - 1, -(2**63))
_VARINTS = (
    b"\x00",
    b"\x01",
    b"\x02",
    b"\x7f",
    b"\x80\x01",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 10 + b"\x01",
    b"\x80" * 9,
)
_MOST_RECORDS = 70_000


@dataclass(frozen=True, slots=True)
class KafkaDoor:
    name: str = "kafka-batches"
    variants: Sequence[str] = tuple(_CODECS)
    batch: int = 100
    renew_after: int = 1 << 60

    def open(self, variant: str) -> "KafkaSession":
        return KafkaSession(variant)


class KafkaSession:
    def __init__(self, variant: str) -> None:
        plant: Variant = variants("wide")["wide-ignore"]
        self._codec, self._writer = _CODECS[variant], RecordWriter(plant)
        self._decoder = Decoder([plant.layout], RecordFormat(on_unknown_asset="ignore"))

    def generate(self, rng: Random, count: int, pool: Sequence[Input]) -> list[Input]:
        return [Input(self._fetched(rng, pool)) for _ in range(count)]

    def feed(self, inputs: Sequence[Input]) -> Outcome:
        outcome = Outcome()
        for index, each in enumerate(inputs):
            records = self._read(index, each.value or b"", outcome)
            if records:
                self._decode(index, records, outcome)
            elif not records:
                outcome.refused["no whole batch"] += 1
        return outcome

    def close(self) -> None:
        """Nothing is open."""

    def _read(self, index: int, data: bytes, outcome: Outcome) -> list[RecordLike]:
        batches, records = TolerantBatches(data), list[RecordLike]()
        while batches.has_next():
            batch = batches.next_batch()
            for record in batch:
                records.append(record)
                if len(records) > _MOST_RECORDS:
                    outcome.violate("hang", f"more than {_MOST_RECORDS} records from {len(data)} bytes", index)
                    return records
        return records

    def _decode(self, index: int, records: list[RecordLike], outcome: Outcome) -> None:
        """Each record is used or becomes a letter, also those that could not be read."""
        decoded = self._decoder.decode(Batch(_TOPIC, records))
        used = {at for readings in decoded.readings for at in readings.record.tolist()}
        rejected = {bad.record: bad for bad in decoded.rejected}
        for at, bad in rejected.items():
            dead_letter(records[at], _TOPIC, reason=bad.reason, detail=bad.detail, field=bad.field)
            outcome.traits.append((index, (bad.reason, shape(bad.detail))))
        unreadable = {at for at, record in enumerate(records) if isinstance(record, RejectedRecord)}
        if len(used | rejected.keys()) + decoded.ignored != len(records):
            outcome.violate("silent", "a record of a batch is neither used, ignored nor rejected", index)
        if used & rejected.keys() or unreadable & used:
            outcome.violate("both", "a record of a batch is used and rejected", index)
        if unreadable:
            outcome.refused["unreadable records"] += 1
        else:
            outcome.used += 1

    def _fetched(self, rng: Random, pool: Sequence[Input]) -> bytes:
        if pool and rng.random() < 0.1:
            return mutate_bytes(rng.choice(pool).value or b"", rng)
        data = b"".join(self._batch(rng) for _ in range(rng.choice([1, 1, 2])))
        kind = rng.random()
        if kind < 0.25:
            return _seal(_lie(data, rng), rng)
        if kind < 0.7:  # inside the records, with a checksum that agrees
            body = data[_HEADER_BYTES:]
            body = _put_varint(body, rng) if rng.random() < 0.5 else mutate_bytes(body, rng)
            return _seal(data[:_HEADER_BYTES] + body, rng)
        return mutate_bytes(data, rng) if kind < 0.85 else data

    def _batch(self, rng: Random) -> bytes:
        builder = DefaultRecordBatchBuilder(
            magic=2, compression_type=self._codec, is_transactional=0, producer_id=-1, producer_epoch=-1,
            base_sequence=0, batch_size=1 << 20,
        )  # fmt: skip
        for at, each in enumerate(self._writer.records(rng, rng.choice([1, 2, 5]), [])):
            stamp = min(max(each.timestamp, 0), 2**40)
            builder.append(at, stamp, each.key, each.value, [(name, value or b"") for name, value in each.headers])
        return bytes(builder.build())


def _lie(data: bytes, rng: Random) -> bytes:
    at, size = _FIELDS[rng.choice(list(_FIELDS))]
    word = (rng.choice(_WORDS) % (1 << (8 * size))).to_bytes(size, "big")
    return data[:at] + word + data[at + size :]


def _put_varint(body: bytes, rng: Random) -> bytes:
    at = rng.randint(0, len(body))
    return body[:at] + rng.choice(_VARINTS) + body[at + rng.choice([0, 1, 1, 2]) :]


def _seal(data: bytes, rng: Random) -> bytes:
    """Mostly with a length and a checksum that agree, so that the inside is reached."""
    if len(data) <= _HEADER_BYTES or rng.random() < 0.15:
        return data
    if rng.random() < 0.9:
        data = data[:8] + struct.pack(">i", len(data) - 12) + data[12:]
    return data[:_CRC_AT] + struct.pack(">I", calc_crc32c(data[_CRC_COVERS:])) + data[_CRC_COVERS:]
