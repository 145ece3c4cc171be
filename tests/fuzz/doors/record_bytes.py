"""Writes good records of every format from raw tokens, and breaks them. Pure."""

import struct
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from agent.runtime.control_records import RESET_HEADER
from connectors.decoding.binary import HEADER, MAGIC, VERSION
from connectors.timestamps import NS_PER_UNIT, format_iso
from tests.fuzz.cases import Headers, Input
from tests.fuzz.doors.record_schemas import avro_body, proto_body
from tests.fuzz.doors.record_variants import ASSETS, Variant
from tests.fuzz.mutation import NAMES, Node, mutate_bytes, mutate_document, write
from tests.support import sparkplug_records as sparkplug

STEP_MS = 1_000
A, B = "readings/0", "readings/1"
_BROKEN = 0.6
"""of the records; the others move the windows on"""
_KEYS = (
    None, b"", b"pump-99", b"fan-1", b"skid", b"\xff\xfe", b"pump-\xff", b"pump-1\x00", b"\x1b[2Jpump-1", b"pump-\n1",
    b"pump-[/x]", b"\xef\xbb\xbfpump-1", b" pump-1", b"pump-" + b"k" * 300, b"pump-\xed\xa0\x80", b"pump-\xe2\x80\xae",
    b'"pump-1"', b"pump-*", b"pump-1\xcc\x81", b"k" * 10_000,
)  # fmt: skip
_STAMPS = (-1, 0, 1, -2, 2**31, 2**41, 4_611_686_018_427, 9_223_372_036_854, 2**62, 2**63 - 1, -(2**63), -(2**40))
HEADERS: tuple[Headers, ...] = (
    ((RESET_HEADER, b"operator"),),
    ((RESET_HEADER, None),),
    ((RESET_HEADER, b"\xff"), (RESET_HEADER, b"")),
    (("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),),
    (("x", None), ("", b""), ("x", b"\xff\x00")),
    (("dl_reason", b"late"), ("dl_offset", b"x"), ("dl_replayed", b"\xff"), ("dl_topic", b"\x1b[2J")),
    (("dl_replayed", b"9" * 5000),),
    (("h" * 2_000, b"v" * 4_000),),
    (("\x1b[31m\n", b"\r\n"),),
    (("\ufffd\u202e", b"\xed\xa0\x80"),),
    tuple((f"n{number}", b"v") for number in range(40)),
)


class RecordWriter:
    """Records of one variant whose times advance; `rng` decides everything."""

    def __init__(self, variant: Variant) -> None:
        self._variant, self._format = variant, variant.format
        self._names = NAMES + tuple(b'"%b"' % field for field in variant.fields)
        self._step = 0
        self._last = b""

    def records(self, rng: Random, count: int, pool: Sequence[Input]) -> list[Input]:
        place = B if rng.random() < 0.15 else A
        return [self._record(rng, pool, place) for _ in range(count)]

    def _record(self, rng: Random, pool: Sequence[Input], place: str) -> Input:
        if rng.random() < 0.4:
            self._step += 1 if rng.random() < 0.98 else rng.choice([2, 9, 40, 400])
        if pool and rng.random() < 0.1:
            earlier = rng.choice(pool)
            again = replace(earlier, value=self._break(earlier.value or b"", rng), place=place)
            return again if rng.random() < 0.5 else self._disguise(again, rng)
        now_ms = self._variant.epoch_ms + self._step * STEP_MS
        at_ms = now_ms - rng.choice([0, 0, 0, 0, 0, 1, 400, 1_000, 3_000, 60_000]) * (rng.random() < 0.5)
        home = ASSETS[4:] if place == B else ASSETS[:4]  # mostly each asset in its own partition
        asset = rng.choice(home if rng.random() < 0.98 else ASSETS).encode()
        node = self._good(rng, asset, at_ms)
        broken = rng.random() < _BROKEN
        if broken and not isinstance(node, bytes) and rng.random() < 0.7:
            for _ in range(rng.choice([1, 1, 1, 2, 3])):
                node = mutate_document(node, rng, self._names)
            value = write(node)
            value = mutate_bytes(value, rng, self._last) if rng.random() < 0.15 else value
        else:
            value = write(node)
            value = self._break(value, rng) if broken else value
        self._last = value
        key = self._topic(rng, asset, value) if self._format.kind == "sparkplug" else asset
        good = Input(value, None if self._format.asset_from == "field" else key, (), now_ms, place)
        return self._disguise(good, rng) if rng.random() < 0.12 else good

    def _break(self, value: bytes, rng: Random) -> bytes:
        if self._format.kind == "binary" and rng.random() < 0.6:
            return _lie(value, rng)
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            value = mutate_bytes(value, rng, self._last)
        return self._swell(value, rng) if rng.random() < 0.0005 else value

    def _swell(self, value: bytes, rng: Random) -> bytes:
        """To about the size at which records, letters or requests no longer fit."""
        size = rng.choice([4_096, 65_536, 400_000, 1_047_000, 1_048_400, 1_048_577])
        filler = rng.choice([b" ", b"\x00", b"9", b"\xff", b'"', b"["])
        return (value + filler * size)[:size] if rng.random() < 0.5 else (filler * size + value)[:size]

    def _disguise(self, good: Input, rng: Random) -> Input:
        """Another key, another timestamp, headers, no value."""
        kind = rng.random()
        if kind < 0.4:
            return replace(good, key=rng.choice(_KEYS))
        if kind < 0.6:
            return replace(good, timestamp=rng.choice(_STAMPS))
        if kind < 0.85:
            headers = rng.choice(HEADERS)
            return replace(good, headers=headers, value=None if rng.random() < 0.3 else good.value)
        return replace(good, value=None if kind < 0.95 else b"")

    def _good(self, rng: Random, asset: bytes, at_ms: int) -> Node:
        match self._format.kind:
            case "wide":
                return self._wide(rng, asset, at_ms)
            case "narrow":
                return self._narrow(rng, asset, at_ms)
            case "chunked":
                return self._chunked(rng, asset, at_ms)
            case "influx":
                return self._influx(rng, asset, at_ms)
            case "avro":
                return avro_body(rng, asset, at_ms, named=self._format.asset_from == "field")
            case "protobuf":
                return proto_body(rng, asset, at_ms)
            case "json-schema":
                id = 1 if rng.random() < 0.95 else rng.choice([0, 2, 6, 99])
                return b"\x00" + id.to_bytes(4) + write(self._wide(rng, asset, at_ms))
            case "telegraf":
                return self._telegraf(rng, asset, at_ms)
            case "sparkplug":
                return self._sparkplug(rng, at_ms)
            case _:
                return self._binary(rng, at_ms)

    def _head(self, asset: bytes, at_ms: int) -> list[tuple[bytes, Node]]:
        head: list[tuple[bytes, Node]] = []
        if self._format.asset_from == "field":
            head.append((b'"%b"' % self._format.asset_field.encode(), b'"%b"' % asset))
        if self._format.time_field is not None:
            head.append((b'"%b"' % self._format.time_field.encode(), self._time(at_ms)))
        return head

    def _time(self, at_ms: int) -> bytes:
        unit = self._format.time_unit
        if unit != "iso":
            return b"%d" % (at_ms * 1_000_000 // NS_PER_UNIT[unit])
        zoned = self._format.utc_offset_minutes is None
        shift_ms = (self._format.utc_offset_minutes or 0) * 60_000
        return b'"%b"' % format_iso((at_ms + shift_ms) * 1_000_000, utc=zoned).encode()

    def _wide(self, rng: Random, asset: bytes, at_ms: int) -> Node:
        channels: list[tuple[bytes, Node]] = [(b'"%b"' % field, _number(rng)) for field in self._variant.fields]
        if self._format.values_field is None:
            return [*self._head(asset, at_ms), *channels]
        return [*self._head(asset, at_ms), (b'"%b"' % self._format.values_field.encode(), channels)]

    def _narrow(self, rng: Random, asset: bytes, at_ms: int) -> Node:
        tag = (b'"%b"' % self._format.channel_field.encode(), b'"%b"' % rng.choice(self._variant.fields))
        return [*self._head(asset, at_ms), tag, (b'"%b"' % self._format.value_field.encode(), _number(rng))]

    def _chunked(self, rng: Random, asset: bytes, at_ms: int) -> Node:
        samples = _samples(rng)
        columns: list[tuple[bytes, Node]] = [
            (b'"%b"' % field, tuple(_number(rng) for _ in range(samples))) for field in self._variant.fields
        ]
        values = (b'"%b"' % (self._format.values_field or "values").encode(), columns)
        head = self._head(asset, at_ms)[: 1 if self._format.asset_from == "field" else 0]
        if rng.random() < 0.5:
            field = (self._format.time_field or "ts").encode()
            times = tuple(self._time(at_ms + number * STEP_MS) for number in range(samples))
            return [*head, (b'"%b"' % field, times), values]
        return [*head, (b'"start"', self._time(at_ms)), (b'"period_ms"', b"%d" % STEP_MS), values]

    def _influx(self, rng: Random, asset: bytes, at_ms: int) -> bytes:
        lines = []
        for number in range(rng.choice([1, 1, 1, 2, 3])):
            fields = [b"%b=%b" % (field, _number(rng).replace(b"null", b"0i")) for field in self._variant.fields]
            fields += [rng.choice([rb'note="a \" b, c=\\"', b"on=t", b"left=3u", rb"a\ \,\=b=1"])] * (
                rng.random() < 0.1
            )
            tags = rng.choice([b"", b",site=n", rb",s\ i=a\,b\=c"]) + b",asset=%b" % asset
            lines.append(b"m%b %b %b" % (tags, b",".join(fields), self._time(at_ms + number * STEP_MS)))
        return b"\n".join(lines)

    def _telegraf(self, rng: Random, asset: bytes, at_ms: int) -> Node:
        def metric(number: int) -> Node:
            fields: list[tuple[bytes, Node]] = [(b'"%b"' % field, _number(rng)) for field in self._variant.fields]
            time = self._time(at_ms + number * STEP_MS)
            tags: list[tuple[bytes, Node]] = [(b'"asset"', b'"%b"' % asset)]
            return [(b'"name"', b'"m"'), (b'"tags"', tags), (b'"fields"', fields), (b'"timestamp"', time)]

        if rng.random() < 0.6:
            return metric(0)
        return [(b'"metrics"', tuple(metric(number) for number in range(rng.choice([1, 2, 3]))))]

    def _sparkplug(self, rng: Random, at_ms: int) -> bytes:
        """Births now and then; `_topic` chooses which kind a payload claims to be."""
        seq = self._step % 256
        if rng.random() < 0.1:
            named = [
                sparkplug.metric(f.decode(), rng.uniform(0, 9), alias=at) for at, f in enumerate(self._variant.fields)
            ]
            session = sparkplug.metric("bdSeq", rng.choice([1, 2]), kind=sparkplug.INT64)
            return sparkplug.payload(session, *named, at_ms=at_ms, seq=seq)
        kinds = (sparkplug.DOUBLE, sparkplug.FLOAT, sparkplug.INT32, sparkplug.INT64)
        metrics = [
            sparkplug.metric(alias=at, value=rng.uniform(-9, 100), kind=rng.choice(kinds), null=rng.random() < 0.05)
            for at in range(len(self._variant.fields))
        ]
        return sparkplug.payload(*metrics, at_ms=at_ms, seq=seq)

    def _topic(self, rng: Random, asset: bytes, value: bytes) -> bytes:
        if rng.random() < 0.02:
            return rng.choice([b"spBv1.0/STATE/h", b"spBv1.0/n/NCMD/e", b"spBv1.0/n/DDATA/e", b"spBv1.0/n//e", b"x/y"])
        if rng.random() < 0.02:
            return b"spBv1.0/n/%b/edge" % rng.choice([b"NBIRTH", b"NDEATH", b"NDATA"])
        kind = b"DBIRTH" if b"bdSeq" in value else rng.choice([b"DDATA"] * 40 + [b"DDEATH"])
        return b"spBv1.0/n/%b/edge/%b" % (kind, asset)

    def _binary(self, rng: Random, at_ms: int) -> bytes:
        samples, channels = _samples(rng), len(self._variant.fields)
        values = [float(_number(rng).replace(b"null", b"nan")) for _ in range(samples * channels)]
        header: bytes = HEADER.pack(MAGIC, VERSION, 0, channels, samples, at_ms * 1_000_000, STEP_MS * 1_000_000)
        return header + struct.pack(f"<{len(values)}f", *values)


def _number(rng: Random) -> bytes:
    return b"null" if rng.random() < 0.05 else b"%d.%d" % (rng.randrange(-9, 100), rng.randrange(1000))


def _samples(rng: Random) -> int:
    return rng.choice([1, 2, 3, 5, 8]) if rng.random() < 0.995 else rng.choice([60, 300])


_FIELD_BYTES = {"magic": 0, "version": 4, "flags": 5, "channels": 6, "samples": 8, "start": 12, "period": 20}
_WORDS = (0, 1, 2, 3, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, 2**32 - 1, 10**9, 10**8, 10**12, 2**62, 2**63 - 1)
_SPECIAL = tuple(
    struct.pack("<I", bits)
    for bits in (0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0x7F7FFFFF, 0x00000001, 0x80000000)
)


def _lie(value: bytes, rng: Random) -> bytes:
    """A header that does not say the truth, or a value that is not a number."""
    name = rng.choice([*_FIELD_BYTES, "value", "value", "grow"])
    if name == "value" and len(value) > HEADER.size:
        at = HEADER.size + 4 * rng.randrange(max((len(value) - HEADER.size) // 4, 1))
        return value[:at] + rng.choice(_SPECIAL) + value[at + 4 :]
    if name in ("value", "grow"):
        return value + bytes(rng.choice([1, 3, 4, 8, 400]))
    size = {"magic": 4, "version": 1, "flags": 1, "channels": 2, "samples": 4}.get(name, 8)
    word = rng.choice(_WORDS) * rng.choice([1, 1, 1, -1])
    packed = (word % (1 << (8 * size))).to_bytes(size, "little")
    at = _FIELD_BYTES[name]
    return value[:at] + packed + value[at + size :]
