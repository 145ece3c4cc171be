"""Sparkplug B in Kafka: births define aliases, data uses them, deaths end them. Pure, with the tables as a value.

Each record is first resolved with the tables of its partition into an asset and rows `[time in ns, field, number]`,
then read like any other record of its group.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import orjson

from connectors.decoding.assets import Key
from connectors.decoding.births import BirthTables, Place
from connectors.decoding.readings import Indices, RawReadings, Rejections, Times
from connectors.decoding.sparkplug_payload import Metric, Payload, read_payload
from connectors.errors import RecordError, shorten
from connectors.record_schema import GroupLayout, RecordFormat
from connectors.records import RecordLike
from connectors.timestamps import END_NS, NS_PER_MS

NAMESPACE = "spBv1.0"
_BD_SEQ = "bdSeq"
_DATA, _BIRTHS, _DEATHS = ("NDATA", "DDATA"), ("NBIRTH", "DBIRTH"), ("NDEATH", "DDEATH")
_MAX_TOPIC = 1_024
_SEQ_MODULUS = 256


class Topic(NamedTuple):
    """`spBv1.0/GROUP/TYPE/NODE[/DEVICE]`."""

    kind: str
    place: Place

    @property
    def asset(self) -> str:
        node, device = self.place
        return f"{node}/{device}" if device else node


@dataclass(slots=True)
class Resolved:
    """`rows` are indices into the records; `skipped` are commands, which hold no samples."""

    keys: list[Key] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    skipped: int = 0
    gaps: int = 0
    """breaks in the sequence numbers: messages that were lost before they came into the log"""


class SparkplugResolver:
    """Reads topics, payloads and aliases. Sequence numbers are only compared within a batch and with the last one."""

    def __init__(self, format: RecordFormat) -> None:
        self._header, self._max_samples = format.topic_header, format.max_samples
        self._seq: dict[str, int] = {}

    def resolve(
        self, records: Sequence[RecordLike], rows: Sequence[int], tables: BirthTables, rejections: Rejections
    ) -> Resolved:
        done = Resolved()
        for row in rows:
            record = records[row]
            try:
                topic = self._topic(record)
                if topic is None:
                    done.skipped += 1
                    continue
                payload = read_payload(record.value or b"", self._max_samples)
                done.gaps += self._has_gap(topic, payload)
                samples = _SAMPLES[topic.kind](topic, payload, record, tables) or [_nothing_at(payload, record)]
            except RecordError as error:
                rejections[row] = error
                continue
            done.keys.append(topic.asset)
            done.values.append(orjson.dumps(samples))
            done.rows.append(row)
        return done

    def _topic(self, record: RecordLike) -> Topic | None:
        """None for commands and host states. Raises `RecordError`."""
        raw = record.key
        if self._header is not None:
            raw = next((content for name, content in record.headers if name == self._header), None)
        where = "the key" if self._header is None else f"the header {self._header}"
        if raw is None:
            raise RecordError("missing_field", f"{where} has no topic such as {NAMESPACE}/GROUP/DDATA/NODE/DEVICE")
        parts = raw[:_MAX_TOPIC].decode(errors="replace").split("/")
        if parts[0] == NAMESPACE and len(parts) >= 2 and (parts[1] == "STATE" or parts[2:3] in (["NCMD"], ["DCMD"])):
            return None
        known = len(parts) > 2 and parts[2] in _SAMPLES
        if parts[0] != NAMESPACE or not known or len(parts) != (4 if parts[2][0] == "N" else 5) or not all(parts):
            raise RecordError("bad_sparkplug", f"{where} is no Sparkplug topic: {shorten(raw)}")
        return Topic(parts[2], (f"{parts[1]}/{parts[3]}", parts[4] if len(parts) == 5 else ""))

    def _has_gap(self, topic: Topic, payload: Payload) -> bool:
        """A birth of a node starts again; a death has no number of its own."""
        node = topic.place[0]
        if payload.seq is None or topic.kind == "NDEATH":
            return False
        before = self._seq.get(node)
        if before is None and len(self._seq) >= _SEQ_MODULUS * _SEQ_MODULUS:
            self._seq.clear()
        self._seq[node] = payload.seq
        return before is not None and topic.kind != "NBIRTH" and payload.seq != (before + 1) % _SEQ_MODULUS


def _birth(topic: Topic, payload: Payload, record: RecordLike, tables: BirthTables) -> list[list[object]]:
    """Its values are samples too. An alias that may mean two things means nothing: DATA that uses it is refused."""
    names, shared = _aliases(payload, tables.wanted)
    kinds = {metric.name: metric.kind for metric in payload.metrics if metric.name and metric.kind}
    tables.born(topic.place, record.offset, names, kinds, _session(payload))
    if shared:
        detail = f"{topic.asset}: the alias {min(shared)} is that of several metrics, of which a channel reads one"
        raise RecordError("bad_sparkplug", detail)
    wanted = [metric for metric in payload.metrics if metric.name in tables.wanted]
    return [_row(metric, metric.name, metric.value, payload, record) for metric in wanted]


def _aliases(payload: Payload, wanted: Collection[str]) -> tuple[dict[int, str], set[int]]:
    """Names by alias, and the aliases of several metrics of which a channel reads one."""
    names, shared = dict[int, str](), set[int]()
    for metric in payload.metrics:
        if metric.alias is None or not metric.name:
            continue
        before = names.setdefault(metric.alias, metric.name)
        if before != metric.name and (before in wanted or metric.name in wanted):
            shared.add(metric.alias)
    return {alias: name for alias, name in names.items() if alias not in shared}, shared


def _data(topic: Topic, payload: Payload, record: RecordLike, tables: BirthTables) -> list[list[object]]:
    birth = tables.find(topic.place, record.offset)
    if birth is None or birth.names is None:
        what = "no birth came before it" if birth is None else "its node or device has died and was not born again"
        raise _no_birth(topic, what)
    rows = []
    for metric in payload.metrics:
        if not metric.name and metric.alias is not None and birth.lacks(metric.alias):
            # A birth with it is not in the log, and may have given the other aliases new meanings.
            raise _no_birth(topic, f"its last birth has no alias {metric.alias}")
        name = metric.name or birth.names.get(metric.alias if metric.alias is not None else -1, "")
        if name in tables.wanted:
            rows.append(_row(metric, name, metric.value_as(birth.kinds.get(name, 0)), payload, record))
    return rows


def _no_birth(topic: Topic, what: str) -> RecordError:
    return RecordError("no_birth", f"{topic.asset}: {what}; ask the edge node for a rebirth")


def _death(topic: Topic, payload: Payload, record: RecordLike, tables: BirthTables) -> list[list[object]]:
    """All channels are missing from here on."""
    tables.died(topic.place, record.offset, _session(payload))
    return []


_SAMPLES: dict[str, Callable[[Topic, Payload, RecordLike, BirthTables], list[list[object]]]] = {
    **dict.fromkeys(_BIRTHS, _birth),
    **dict.fromkeys(_DATA, _data),
    **dict.fromkeys(_DEATHS, _death),
}


def _session(payload: Payload) -> int | None:
    """None where it is no number that could be told from another one."""
    found = next((metric.value for metric in payload.metrics if metric.name == _BD_SEQ), None)
    return None if found is None or not np.isfinite(found) else int(found)


def _row(metric: Metric, name: str, value: float | None, payload: Payload, record: RecordLike) -> list[object]:
    """Raises `RecordError`."""
    if not metric.is_number:
        raise RecordError("wrong_type", f"{shorten(name)} is not a number", field=name)
    if value is not None and not np.isfinite(value):
        if np.isinf(value):
            raise RecordError("non_finite", f"{shorten(name)} is {value:g}, not a finite number", field=name)
        value = None
    time_ms = payload.timestamp_ms if metric.timestamp_ms is None else metric.timestamp_ms
    return [_time_ns(time_ms, record), name, value]


def _nothing_at(payload: Payload, record: RecordLike) -> list[object]:
    """Shows that the asset was heard of at that time, with all channels missing."""
    return [_time_ns(payload.timestamp_ms, record), "", None]


def _time_ns(time_ms: int | None, record: RecordLike) -> int:
    """The record's timestamp where the payload has none."""
    if time_ms is None:
        time_ms = record.timestamp
        if time_ms < 0:
            raise RecordError("bad_timestamp", "neither the payload nor the record has a timestamp")
    if not 0 <= time_ms < END_NS // NS_PER_MS:
        raise RecordError("bad_timestamp", f"a timestamp outside 1970–2116: {time_ms} ms")
    return time_ms * NS_PER_MS


class SparkplugDecoder:
    """Rows of resolved records: values of one time are one sample."""

    def __init__(self, group: GroupLayout, format: RecordFormat) -> None:
        self._column = {channel.field: number for number, channel in enumerate(group.channels)}

    def decode(self, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections) -> RawReadings:
        index: list[int] = []
        times: list[int] = []
        numbers: list[list[float]] = []
        for number, value in enumerate(values):
            samples: dict[int, list[float]] = {}
            for time_ns, name, content in orjson.loads(value):
                row = samples.get(time_ns)
                if row is None:
                    row = samples[time_ns] = [np.nan] * len(self._column)
                column = self._column.get(name)
                if column is not None and content is not None:
                    row[column] = content
            index += [number] * len(samples)
            times += samples
            numbers += samples.values()
        table = np.array(numbers, np.float64).reshape(len(index), len(self._column))
        return RawReadings(np.array(index, np.int64), np.array(times, np.int64), table)


def resolved_indices(done: Resolved) -> Indices:
    return np.array(done.rows, dtype=np.int64)
