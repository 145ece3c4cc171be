"""Every record format through a real broker: the same samples give the same states in each of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pytest

from agent.app import build_pipeline
from agent.health.counters import Counters
from agent.runtime.instruments import Instruments
from connectors.decoding import REASONS, encode_chunk
from connectors.kafka.cluster import Cluster
from connectors.kafka.producer import RecordProducer
from connectors.records import Record
from connectors.timestamps import format_iso
from tests.support import proto_records as proto
from tests.support import sparkplug_records as spark
from tests.support.agent_process import read_topic
from tests.support.avro_records import FLAT, encode
from tests.support.offline_plant import load_offline_plant, load_rule, write_plant
from tests.support.services.kafka import Broker

START_MS = 1_760_000_000_000
SECONDS = 40
ASSETS = ("pump-1", "pump-2")


class Sample(NamedTuple):
    asset: str
    at_ms: int
    flow: float
    pressure: float | None


def samples(seconds: int = SECONDS) -> Iterator[Sample]:
    """Flow is high for ten seconds, then low for ten, the second pump five seconds ahead; pressure is lost at 7 s."""
    for second in range(seconds):
        for number, asset in enumerate(ASSETS):
            flow = 1.0 if (second + 5 * number) // 10 % 2 else -1.0
            yield Sample(asset, START_MS + second * 1000, flow, None if second == 7 else 2.0)


def record(asset: str | None, at_ms: int, value: object) -> Record:
    raw = value if isinstance(value, bytes) else orjson.dumps(value)
    return Record(0, at_ms, None if asset is None else asset.encode(), raw)


def wide(time: Callable[[int], Any] = int, **more: str) -> list[Record]:
    return [
        record(each.asset, each.at_ms, {"ts": time(each.at_ms), "flow": each.flow, "pressure": each.pressure} | more)
        for each in samples()
    ]


def asset_in_field() -> list[Record]:
    return [
        record(
            None, each.at_ms, {"who": each.asset, "ts": each.at_ms, "v": {"flow": each.flow, "pressure": each.pressure}}
        )
        for each in samples()
    ]


def of_the_records_own_time() -> list[Record]:
    return [record(each.asset, each.at_ms, {"flow": each.flow, "pressure": each.pressure}) for each in samples()]


def in_other_units() -> list[Record]:
    """f = (flow − 0.5) × 4, as a sensor might count."""
    return [
        record(each.asset, each.at_ms, {"ts": each.at_ms, "f": (each.flow - 0.5) * 4, "pressure": each.pressure})
        for each in samples()
    ]


def narrow() -> list[Record]:
    return [
        record(each.asset, each.at_ms, {"ts": each.at_ms, "channel": channel, "value": getattr(each, channel)})
        for each in samples()
        for channel in ("pressure", "flow")
    ]


def chunks() -> Iterator[tuple[str, list[Sample]]]:
    """Eight seconds of one asset at a time."""
    for low in range(0, SECONDS, 8):
        for asset in ASSETS:
            own = [each for each in samples() if each.asset == asset]
            yield asset, own[low : low + 8]


def chunked(*, listed: bool) -> list[Record]:
    def document(own: Sequence[Sample]) -> dict[str, Any]:
        times = {"ts": [each.at_ms for each in own]} if listed else {"start": own[0].at_ms, "period_ms": 1000}
        return times | {"values": {"flow": [each.flow for each in own], "pressure": [each.pressure for each in own]}}

    return [record(asset, own[-1].at_ms, document(own)) for asset, own in chunks()]


def binary() -> list[Record]:
    def raw(own: Sequence[Sample]) -> bytes:
        table = [(each.flow, np.nan if each.pressure is None else each.pressure) for each in own]
        return encode_chunk(table, start_ns=own[0].at_ms * 10**6, period_ns=10**9)

    return [record(asset, own[-1].at_ms, raw(own)) for asset, own in chunks()]


def lines() -> list[Record]:
    def line(each: Sample) -> bytes:
        pressure = "" if each.pressure is None else f",pressure={each.pressure}"
        return f"m,who={each.asset} flow={each.flow}{pressure} {each.at_ms * 10**6}".encode()

    return [record(None, each.at_ms, line(each)) for each in samples()]


def telegraf() -> list[Record]:
    def metric(each: Sample) -> dict[str, Any]:
        fields = {"flow": each.flow} | ({} if each.pressure is None else {"pressure": each.pressure})
        return {"name": "m", "tags": {"who": each.asset}, "fields": fields, "timestamp": each.at_ms // 1000}

    batches = [record(None, own[-1].at_ms, {"metrics": [metric(each) for each in own]}) for _, own in chunks()]
    return batches[:2] + [record(None, each.at_ms, metric(each)) for _, own in [*chunks()][2:] for each in own]


def avro() -> list[Record]:
    return [
        record(each.asset, each.at_ms, encode({"ts": each.at_ms, "flow": each.flow, "pressure": each.pressure}, id=1))
        for each in samples()
    ]


def protobuf() -> list[Record]:
    def body(each: Sample) -> bytes:
        pressure = b"" if each.pressure is None else proto.single(3, each.pressure)
        return proto.framed(proto.integer(1, each.at_ms) + proto.double(2, each.flow) + pressure, id=2)

    return [record(each.asset, each.at_ms, body(each)) for each in samples()]


def json_schema() -> list[Record]:
    return [replace(each, value=b"\x00\x00\x00\x00\x03" + (each.value or b"")) for each in wide()]


def sparkplug() -> list[Record]:
    """An edge node with both pumps: births with the first values, data by alias; after 20 s they are born again and the
    aliases are exchanged."""
    made = [sparkplug_record("NBIRTH", None, START_MS, spark.metric("bdSeq", 0, kind=spark.INT64))]
    for each in samples():
        second, swapped = (each.at_ms - START_MS) // 1000, each.at_ms >= START_MS + 20_000
        aliases = dict(zip(("flow", "pressure"), (2, 1) if swapped else (1, 2), strict=True))
        values = {"flow": each.flow, "pressure": each.pressure}
        born = second in (0, 20)
        if second == 20 and each.asset == ASSETS[0]:
            made.append(sparkplug_record("NBIRTH", None, each.at_ms, spark.metric("bdSeq", 1, kind=spark.INT64)))
        metrics = [
            spark.metric(name if born else "", value, alias=aliases[name], null=value is None, typed=born)
            for name, value in values.items()
        ]
        made.append(sparkplug_record("DBIRTH" if born else "DDATA", each.asset, each.at_ms, *metrics))
    return made


def sparkplug_record(kind: str, device: str | None, at_ms: int, *metrics: bytes) -> Record:
    topic = f"spBv1.0/north/{kind}/edge-1" + (f"/{device}" if device else "")
    value = spark.payload(*metrics, at_ms=at_ms)
    return Record(0, at_ms, b"north/edge-1", value, [("mqtt_topic", topic.encode())])


SCHEMAS = {
    1: {"schema": orjson.dumps(FLAT).decode()},
    2: {
        "schema": 'syntax="proto3"; message R { int64 ts=1; double flow=2; optional float pressure=3; }',
        "schemaType": "PROTOBUF",
    },
    3: {"schema": "{}", "schemaType": "JSON"},
}


def zoned(at_ms: int) -> str:
    return format_iso(at_ms * 10**6)


def in_kathmandu(at_ms: int) -> str:
    return format_iso((at_ms + (5 * 60 + 45) * 60_000) * 10**6, utc=False)


class FormatCase(NamedTuple):
    settings: dict[str, Any]
    made: Callable[[], list[Record]]
    channels: list[dict[str, Any]] | None = None
    assets: str = "pump-*"


COUNTED: list[dict[str, Any]] = [{"name": "flow", "field": "f", "scale": 0.25, "offset": 0.5}, {"name": "pressure"}]
FORMS = {
    "wide, epoch ms": FormatCase({}, wide),
    "wide, epoch s": FormatCase({"time": {"unit": "s"}}, lambda: wide(lambda at: at / 1000)),
    "wide, epoch us": FormatCase({"time": {"unit": "us"}}, lambda: wide(lambda at: at * 1000)),
    "wide, epoch ns": FormatCase({"time": {"unit": "ns"}}, lambda: wide(lambda at: at * 10**6)),
    "wide, ISO": FormatCase({"time": {"unit": "iso"}}, lambda: wide(zoned)),
    "wide, ISO without a zone": FormatCase(
        {"time": {"unit": "iso", "utc_offset": "+05:45"}}, lambda: wide(in_kathmandu)
    ),
    "wide, the record's own time": FormatCase({"time": {"field": None}}, of_the_records_own_time),
    "wide, more fields": FormatCase({"unknown_channel": "ignore"}, lambda: wide(colour="red")),
    "wide, asset in a field": FormatCase({"asset_field": "who", "values_field": "v"}, asset_in_field),
    "wide, scaled": FormatCase({}, in_other_units, COUNTED),
    "narrow": FormatCase({"format": "narrow"}, narrow),
    "chunked, times": FormatCase({"format": "chunked", "values_field": "values"}, lambda: chunked(listed=True)),
    "chunked, start": FormatCase({"format": "chunked", "values_field": "values"}, lambda: chunked(listed=False)),
    "binary": FormatCase({"format": "binary"}, binary),
    "influx": FormatCase({"format": "influx", "asset_field": "who"}, lines),
    "telegraf": FormatCase({"format": "telegraf", "asset_field": "who"}, telegraf),
    "avro": FormatCase({"format": "avro", "registry": {"directory": "schemas"}}, avro),
    "protobuf": FormatCase({"format": "protobuf", "registry": {"directory": "schemas"}}, protobuf),
    "json-schema": FormatCase({"format": "json-schema", "registry": {"directory": "schemas"}}, json_schema),
    "sparkplug": FormatCase(
        {"format": "sparkplug", "topic_header": "mqtt_topic", "unknown_asset": "ignore"}, sparkplug, assets="north/*/*"
    ),
}


class World:
    """A broker with topics of one partition each, and a plant that reads them."""

    def __init__(self, kafka: Broker, base: str, inputs: Sequence[str], directory: Path) -> None:
        self.bootstrap, self.inputs, self.directory = kafka.bootstrap, inputs, directory
        self.outputs = {name: f"{base}-{name}" for name in ("events", "states", "dead_letters")}
        for topic in (*inputs, *self.outputs.values()):
            kafka.create_topic(topic, 1)

    def plant(self, records: dict[str, Any], **group: Any) -> Path:
        groups = [{"name": "pumps", "assets": ["pump-*"], "model": {"bundle": "bundle"}, "max_assets": 2}]
        groups[0]["hysteresis"] = {"enabled": False}  # what each window says is compared
        window = {"hop": 2, "lateness": 1}
        return write_plant(
            self.directory,
            source={"kind": "kafka", "bootstrap": self.bootstrap, "topics": list(self.inputs)},
            sinks=[{"kind": "kafka", "topics": self.outputs}],
            records=records,
            groups=[groups[0] | {"window": window} | group],
        )

    async def send(self, topic: str, given: Sequence[Record]) -> None:
        writer = RecordProducer(Cluster(self.bootstrap))
        await writer.start()
        await writer.write(topic, given)
        await writer.close()

    @asynccontextmanager
    async def agent(self, plant: Path) -> AsyncIterator[Counters]:
        instruments, stop = Instruments(), asyncio.Event()
        pipeline = build_pipeline(load_offline_plant(plant), instruments=instruments, load_model=load_rule)
        async with asyncio.timeout(180), asyncio.TaskGroup() as group:
            group.create_task(pipeline.run(stop))
            yield instruments.counters
            stop.set()

    async def run_agent(self, plant: Path, count: int) -> Counters:
        async with self.agent(plant) as tally:
            await has_read(tally, count)
        return tally

    async def events(self) -> list[dict[str, Any]]:
        return [orjson.loads(each.value) for each in await read_topic(self.bootstrap, self.outputs["events"])]

    async def letters(self) -> list[Any]:
        return await read_topic(self.bootstrap, self.outputs["dead_letters"])


async def has_read(tally: Counters, count: int) -> None:
    while tally.records < count:  # noqa: ASYNC110  # a tally has no event to wait for
        await asyncio.sleep(0.02)


def states_by_asset(events: Sequence[dict[str, Any]]) -> dict[str, list[tuple[int, str, float, list[float]]]]:
    """Per asset: seconds after the start, state, coverage, contributions of the spans."""
    start = np.datetime64(START_MS, "ms")
    found: dict[str, list[tuple[int, str, float, list[float]]]] = {asset: [] for asset in ASSETS}
    for event in events:
        second = int((np.datetime64(event["window"]["end"].rstrip("Z")) - start) / np.timedelta64(1, "s"))
        parts = [span["contribution"] for span in event["evidence"]["spans"]]
        found[event["asset"].rpartition("/")[2]].append((second, event["state"], event["window"]["coverage"], parts))
    return found


UP, STEP, MIXED = [4.0], [3.0, -1.0], [-2.0, 2.0]
CHANGES = {
    "pump-1": [(2, "low", 0.5, [2.0]), (14, "high", 1.0, UP), (22, "low", 1.0, MIXED), (34, "high", 1.0, UP)],
    "pump-2": [
        (2, "low", 0.5, [2.0]),
        (8, "high", 0.875, STEP),
        (18, "low", 1.0, STEP),
        (28, "high", 1.0, STEP),
        (38, "low", 1.0, STEP),
    ],
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_the_same_samples_give_the_same_states_in_every_form(
    form: FormatCase, kafka: Broker, topic_name: str, tmp_path: Path
) -> None:
    world, given = World(kafka, topic_name, [topic_name], tmp_path), form.made()
    (tmp_path / "schemas").mkdir()
    for id, schema in SCHEMAS.items():
        (tmp_path / "schemas" / f"{id}.json").write_bytes(orjson.dumps(schema))
    channels = {} if form.channels is None else {"channels": form.channels}
    plant = world.plant(form.settings, assets=[form.assets], **channels)
    await world.send(topic_name, given)
    tally = await world.run_agent(plant, len(given))
    assert tally.dead_letters == {}
    assert states_by_asset(await world.events()) == CHANGES


async def test_several_topics_are_read_as_one_plant(kafka: Broker, topic_name: str, tmp_path: Path) -> None:
    topics = [f"{topic_name}-{asset}" for asset in ASSETS]
    world = World(kafka, topic_name, topics, tmp_path)
    for topic, asset in zip(topics, ASSETS, strict=True):
        await world.send(topic, [each for each in wide() if each.key == asset.encode()])
    await world.run_agent(world.plant({}), 2 * SECONDS)
    events = await world.events()
    assert states_by_asset(events) == CHANGES
    assert {(event["asset"], event["input"]["topic"]) for event in events} == set(zip(ASSETS, topics, strict=True))


def bad_records() -> dict[str, tuple[Record, str]]:
    """By reason: a record that is rejected for it, and the field that is named."""
    at = START_MS + (SECONDS + 1) * 1000

    def own(value: object, asset: str = "pump-1") -> Record:
        return record(asset, at, value)

    return {
        "empty": (own({"ts": at}), ""),
        "not_json": (own(b'{"ts": 17600'), ""),
        "wrong_type": (own({"ts": at, "flow": "1.5"}), "flow"),
        "missing_field": (own({"flow": 1}), "ts"),
        "unknown_asset": (own({"ts": at, "flow": 1}, "boiler"), ""),
        "unknown_channel": (own({"ts": at, "flow": 1, "colour": 2}), "colour"),
        "non_finite": (own({"ts": at, "flow": 1e39}), "flow"),
        "bad_timestamp": (own({"ts": -1, "flow": 1}), "ts"),
        "clock_far": (own({"ts": at + 2 * 86_400_000, "flow": 1}), ""),
        "too_large": (own({"ts": at, "flow": 1, "pressure": "x" * 1100}), ""),
        "too_many_channels": (own({"ts": at} | {f"c{n}": n for n in range(9)}), ""),
        "late": (own({"ts": START_MS, "flow": 1}), ""),
        "too_many_assets": (own({"ts": at, "flow": 1}, "pump-3"), ""),
    }


async def test_every_reason_reaches_the_dead_letters_with_bytes_key_headers_and_origin(
    kafka: Broker, topic_name: str, tmp_path: Path
) -> None:
    world, good, bad = World(kafka, topic_name, [topic_name], tmp_path), wide(), bad_records()
    await world.send(topic_name, [*good, *(marked(each) for each, _ in bad.values())])
    async with world.agent(world.plant({"max_bytes": "1KiB", "max_channels": 8})) as tally:
        await has_read(tally, len(good) + len(bad))
    assert tally.dead_letters == dict.fromkeys(bad, 1)
    letters = {dict(letter.headers)["dl_reason"].decode(): letter for letter in await world.letters()}
    assert letters.keys() == bad.keys()
    elsewhere = {"bad_chunk", "wrong_period", "bad_asset", "bad_control", "undecodable_headers", "undecodable_record"}
    elsewhere |= {"bad_avro", "bad_protobuf", "no_schema_id", "unknown_schema", "schema_mismatch"}
    elsewhere |= {"bad_line", "bad_sparkplug", "no_birth"}
    assert {*letters, *elsewhere} >= REASONS
    for reason, letter in letters.items():
        sent, field = bad[reason]
        headers = {name: text.decode(errors="replace") for name, text in letter.headers}
        assert (letter.key, letter.value) == (sent.key, sent.value)
        assert letter.headers[0] == ("own", b"\xff\x00")
        assert headers["dl_field"] == field
        assert headers["dl_topic"] == topic_name
        place = len(good) + list(bad).index(reason)
        assert (headers["dl_partition"], headers["dl_offset"]) == ("0", str(place))
        assert headers["dl_timestamp_ms"] == str(sent.timestamp)
        assert headers["dl_exception"] == ("JSONDecodeError" if reason == "not_json" else "RecordError")
        assert headers["dl_detail"]
        assert headers["dl_version"] == version("anchormoe-agent")
    assert states_by_asset(await world.events()) == CHANGES


def marked(given: Record) -> Record:
    """With a header whose value is not text."""
    return replace(given, headers=(("own", b"\xff\x00"),))
