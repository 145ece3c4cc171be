"""What a record of each format costs to decode: processor time, eight channels, the best of several turns.

Run it as `python -m tests.bench.decoding [--out docs/results/decoding.md]`; it takes half a minute.
"""

import argparse
import io
import json
import os
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import orjson

from connectors.decoding import Decoder, encode_chunk
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat, RecordKind
from connectors.records import Batch, Partition, Record
from tests.support import proto_records as proto
from tests.support import sparkplug_records as sparkplug
from tests.support.avro_records import KnownSchemas

RECORDS, TURNS, CHUNK = 5_000, 15, 100
T0 = 1_731_744_000_000
NAMES = tuple(f"c{number}" for number in range(8))
GROUP = GroupLayout("all", tuple(ChannelField(name, name) for name in NAMES), ("*",))
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "ts", "type": "long"}, *({"name": name, "type": "double"} for name in NAMES)],
}
NULLABLE = AVRO | {
    "fields": [{"name": "ts", "type": "long"}, *({"name": name, "type": ["null", "double"]} for name in NAMES)]
}
BESIDE = {"labels": {"site": "north", "line": "7"}, "flags": [1, 0, 300, 7]}
NESTED = AVRO | {
    "fields": [
        {"name": "labels", "type": {"type": "map", "values": "string"}},
        {"name": "flags", "type": {"type": "array", "items": "int"}},
        *AVRO["fields"],
    ]
}
PROTO = "syntax='proto3'; message R { int64 ts = 1; " + " ".join(f"double c{n} = {n + 2};" for n in range(8)) + " }"
AVRO_LIMIT_US = 2.0


def wide(at: int, row: list[float]) -> bytes:
    return orjson.dumps({"ts": at, **dict(zip(NAMES, row, strict=True))})


def avro(schema: dict[str, Any]) -> Callable[[int, list[float]], bytes]:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))

    def encode(at: int, row: list[float]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, BESIDE | {"ts": at, **dict(zip(NAMES, row, strict=True))})
        return b"\x00\x00\x00\x00\x01" + out.getvalue()

    return encode


def protobuf(at: int, row: list[float]) -> bytes:
    return proto.framed(
        proto.integer(1, at) + b"".join(proto.double(n + 2, value) for n, value in enumerate(row)), id=1
    )


def json_schema(at: int, row: list[float]) -> bytes:
    return b"\x00\x00\x00\x00\x01" + wide(at, row)


def influx(at: int, row: list[float]) -> bytes:
    return f"m {','.join(f'{name}={value}' for name, value in zip(NAMES, row, strict=True))} {at * 10**6}".encode()


def telegraf(at: int, row: list[float]) -> bytes:
    return orjson.dumps({"name": "m", "tags": {}, "fields": dict(zip(NAMES, row, strict=True)), "timestamp": at / 1000})


def ddata(at: int, row: list[float]) -> bytes:
    return sparkplug.payload(*(sparkplug.metric(alias=n, value=value) for n, value in enumerate(row)), at_ms=at)


def binary(at: int, row: list[float]) -> bytes:
    return encode_chunk(np.tile(row, (CHUNK, 1)), start_ns=at * 10**6, period_ns=10**6)


Case = tuple[str, RecordFormat, Callable[[int, list[float]], bytes], KnownSchemas | None]


def cases() -> list[Case]:
    def form(kind: RecordKind, **more: Any) -> RecordFormat:
        return RecordFormat(kind=kind, **more)

    return [
        ("wide JSON", form("wide"), wide, None),
        ("avro, flat", form("avro"), avro(AVRO), KnownSchemas({1: AVRO})),
        ("avro, each with null", form("avro"), avro(NULLABLE), KnownSchemas({1: NULLABLE})),
        (
            "avro, with a map and an array",
            form("avro", on_unknown_channel="ignore"),
            avro(NESTED),
            KnownSchemas({1: NESTED}),
        ),
        ("protobuf, flat", form("protobuf"), protobuf, KnownSchemas({1: PROTO}, "PROTOBUF")),
        ("json-schema", form("json-schema"), json_schema, KnownSchemas({1: "{}"}, "JSON")),
        ("influx", form("influx", time_unit="ns"), influx, None),
        ("telegraf", form("telegraf", time_unit="s"), telegraf, None),
        ("sparkplug, aliases", form("sparkplug"), ddata, None),
        (f"binary, {CHUNK} samples", form("binary"), binary, None),
    ]


def measure(case: Case) -> tuple[float, float]:
    """Microseconds and bytes per record."""
    _, format, encode, schemas = case
    rows = np.random.default_rng(0).normal(size=(RECORDS, 8)).round(3).tolist()
    key = b"spBv1.0/g/DDATA/n/d" if format.kind == "sparkplug" else b"pump-1"
    values = [encode(T0 + number * 100, row) for number, row in enumerate(rows)]
    records = [Record(number, T0, key, value) for number, value in enumerate(values)]
    decoder = Decoder([GROUP], format, schemas)
    births = decoder.make_births(())
    if births is not None:
        births.born(("g/n", "d"), -1, dict(enumerate(NAMES)), {}, None)
    batch, best = Batch(Partition("r", 0), records), float("inf")
    for _ in range(TURNS):
        began = time.process_time()
        decoded = decoder.decode(batch, births)
        best = min(best, time.process_time() - began)
    assert not decoded.rejected, decoded.rejected[0]
    return best / RECORDS * 1e6, sum(map(len, values)) / RECORDS


def page(found: dict[str, tuple[float, float]]) -> str:
    plain = found["wide JSON"][0]
    versions = ", ".join(f"{name} {version(name)}" for name in ("msgspec", "numpy", "orjson"))
    lines = [
        "# What decoding costs",
        "",
        f"`python -m tests.bench.decoding`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python "
        f"{platform.python_version()}, {versions}; load average {os.getloadavg()[0]:.1f}. Eight channels, "
        f"batches of {RECORDS:,} records, processor time, the best of {TURNS} turns.",
        "",
        "| format | bytes | µs per record | × wide JSON |",
        "| --- | --- | --- | --- |",
        *(f"| {name} | {size:.0f} | {us:.2f} | {us / plain:.2f} |" for name, (us, size) in found.items()),
        "",
    ]
    flat = found["avro, flat"][0]
    verdict = "met" if flat <= AVRO_LIMIT_US else "not met"
    return "\n".join([*lines, f"Asked for: flat Avro at most {AVRO_LIMIT_US:g} µs per record: {verdict}.", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    written = page({case[0]: measure(case) for case in cases()})
    print(written)
    if given.out:
        given.out.write_text(written)


if __name__ == "__main__":
    main()
