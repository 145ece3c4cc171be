"""Decodes a batch of records into columns per asset group; a bad record never affects another. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from connectors.decoding.assets import AssetDirectory, AssetField, Key, Owners
from connectors.decoding.avro import AvroAssetField, AvroDecoder
from connectors.decoding.binary import BinaryDecoder
from connectors.decoding.births import BirthTables
from connectors.decoding.chunked import ChunkDecoder
from connectors.decoding.influx import InfluxAssetTag, InfluxDecoder
from connectors.decoding.json_schema import JsonSchemaAssetField, JsonSchemaDecoder
from connectors.decoding.narrow import NarrowDecoder
from connectors.decoding.postprocess import Postprocessor
from connectors.decoding.protobuf import ProtobufAssetField, ProtobufDecoder
from connectors.decoding.raw_batch import RawBatch
from connectors.decoding.readings import Decoded, Indices, RawReadings, Readings, Rejected, Rejections, Times
from connectors.decoding.registered import Schema, SchemaSource, framed_value, schema_ids
from connectors.decoding.sparkplug import SparkplugDecoder, SparkplugResolver, resolved_indices
from connectors.decoding.telegraf import TelegrafAssetTag, TelegrafDecoder
from connectors.decoding.wide import WideDecoder
from connectors.errors import RecordError
from connectors.record_schema import GroupLayout, RecordFormat
from connectors.records import Batch, RecordLike


class GroupDecoder(Protocol):
    """One format for one group. `stamps_ns` are the records' timestamps; rejections are by index into `values`."""

    def decode(self, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections) -> RawReadings: ...


class AssetReader(Protocol):
    """Reads the asset id out of values. The ids, and the indices of the values that have one."""

    def read(self, values: Sequence[bytes], rejections: Rejections) -> tuple[list[Key], Indices]: ...


_DECODERS: dict[str, Callable[[GroupLayout, RecordFormat], GroupDecoder]] = {
    "wide": WideDecoder,
    "narrow": NarrowDecoder,
    "chunked": ChunkDecoder,
    "binary": BinaryDecoder,
    "influx": InfluxDecoder,
    "telegraf": TelegrafDecoder,
    "sparkplug": SparkplugDecoder,
}
_REGISTERED: dict[str, Callable[[GroupLayout, RecordFormat, SchemaSource], GroupDecoder]] = {
    "avro": AvroDecoder,
    "protobuf": ProtobufDecoder,
    "json-schema": JsonSchemaDecoder,
}


def check_schema(schema: Schema, group: GroupLayout, format: RecordFormat) -> None:
    """Whether records of this schema can be read. Raises `RecordError` with the reason."""
    kinds = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}
    if schema.kind != kinds[format.kind]:
        raise RecordError("schema_mismatch", f"it is {schema.kind}; records.format is {format.kind}")
    if format.kind == "avro":
        AvroDecoder(group, format, _NoSchemas()).check(schema)
    elif format.kind == "protobuf":
        ProtobufDecoder(group, format, _NoSchemas()).check(schema)


class _NoSchemas:
    async def load(self, ids: object) -> None:
        """There are none."""

    def get(self, id: object) -> Schema | RecordError:
        return RecordError("unknown_schema", "no schemas")

    async def close(self) -> None:
        """Nothing is open."""


class Decoder:
    """Decodes the records of one format. Whether a record is accepted depends on itself alone, never on its batch."""

    def __init__(
        self, groups: Sequence[GroupLayout], format: RecordFormat, schemas: SchemaSource | None = None
    ) -> None:
        if format.kind in ("binary", "sparkplug") and format.asset_from == "field":
            raise ValueError(f"{format.kind} records have no field for the asset")
        self._schemas = schemas
        self._groups = tuple(groups)
        self._format = format
        self._directory = AssetDirectory(groups)
        self._asset_field = self._make_asset_field() if format.asset_from == "field" else None
        self._decoders = [self._make_decoder(group) for group in groups]
        self._resolver = SparkplugResolver(format) if format.kind == "sparkplug" else None
        self._postprocessors = [Postprocessor(group, format) for group in groups]

    @property
    def accepts_resets(self) -> bool:
        return self._format.accept_resets

    def make_births(self, stored: Iterable[bytes | None]) -> BirthTables | None:
        """What a partition's records define for later ones, from what was stored; None where each stands alone."""
        if self._resolver is None:
            return None
        tables = BirthTables(frozenset(channel.field for group in self._groups for channel in group.channels))
        for document in stored:
            tables.restore(document)
        return tables

    async def prepare(self, records: Iterable[RecordLike]) -> None:
        """Fetch what decoding them needs; before `decode`, which waits for nothing. Raises `ConnectorError`."""
        if self._schemas is not None:
            await self._schemas.load(schema_ids(map(framed_value, records)))

    async def close(self) -> None:
        if self._schemas is not None:
            await self._schemas.close()

    def decode(self, batch: Batch, births: BirthTables | None = None) -> Decoded:
        """1. size  2. asset and group  3. each group's columns  4. clock skew, scaling, finiteness.

        `births` are those of the partition, and belong to its owner; records that only they explain need them.
        """
        rejections: Rejections = {}
        with_ids = self._schemas is not None
        raw = RawBatch.from_records(batch.records, self._format.max_bytes, rejections, with_ids=with_ids)
        raw, skipped, gaps = self._resolve(raw, batch, births, rejections)
        raw = self._replace_keys(raw, rejections)
        owners = self._directory.owners(raw.keys)
        ignored = self._reject_unowned(owners, raw.index, rejections)
        by_group = [np.flatnonzero(owners.group == number) for number in range(len(self._groups))]
        decoded = [
            self._decode_group(number, rows, raw, owners, rejections)
            for number, rows in enumerate(by_group)
            if len(rows)
        ]
        rejected = [Rejected.of(index, rejections[index]) for index in sorted(rejections)]
        readings = [part for part, _ in decoded if len(part.record)]
        unknown = sum(ignored_channels for _, ignored_channels in decoded)
        return Decoded(readings, rejected, ignored + skipped, unknown, gaps)

    def _make_decoder(self, group: GroupLayout) -> GroupDecoder:
        if self._format.kind in _REGISTERED:
            return _REGISTERED[self._format.kind](group, self._format, self._known_schemas)
        return _DECODERS[self._format.kind](group, self._format)

    def _make_asset_field(self) -> AssetReader:
        field, max_samples = self._format.asset_field, self._format.max_samples
        match self._format.kind:
            case "avro":
                return AvroAssetField(field, self._known_schemas)
            case "protobuf":
                return ProtobufAssetField(self._format, self._known_schemas)
            case "json-schema":
                return JsonSchemaAssetField(field, self._known_schemas)
            case "influx":
                return InfluxAssetTag(field, max_samples)
            case "telegraf":
                return TelegrafAssetTag(field, max_samples)
            case _:
                return AssetField(field)

    def _resolve(
        self, raw: RawBatch, batch: Batch, births: BirthTables | None, rejections: Rejections
    ) -> tuple[RawBatch, int, int]:
        """Records that depend on earlier ones, with what those defined; how many hold no samples, and gaps."""
        if self._resolver is None:
            return raw, 0, 0
        tables = births or self.make_births(()) or BirthTables(())
        done = self._resolver.resolve(batch.records, raw.index.tolist(), tables, rejections)
        places = np.searchsorted(raw.index, resolved_indices(done))
        return RawBatch(raw.index[places], raw.stamps_ns[places], done.keys, done.values), done.skipped, done.gaps

    @property
    def _known_schemas(self) -> SchemaSource:
        if self._schemas is None:
            raise ValueError(f"{self._format.kind} records need a source of schemas")
        return self._schemas

    def _replace_keys(self, raw: RawBatch, rejections: Rejections) -> RawBatch:
        """With the asset field as the key, where one is set."""
        if self._asset_field is None:
            return raw
        bad: Rejections = {}
        assets, good = self._asset_field.read(raw.values, bad)
        _add_rejections(bad, raw.index, rejections)
        return raw.select(good).with_keys(assets)

    def _reject_unowned(self, owners: Owners, index: Indices, rejections: Rejections) -> int:
        """Returns how many were ignored."""
        ignored = 0
        for row in np.flatnonzero(owners.group < 0).tolist():
            error = owners.error(row)
            if self._format.on_unknown_asset == "ignore" and owners.may_ignore(row, error):
                ignored += 1
            else:
                rejections[int(index[row])] = error
        return ignored

    def _decode_group(
        self, number: int, rows: Indices, raw: RawBatch, owners: Owners, rejections: Rejections
    ) -> tuple[Readings, int]:
        """The readings of one group, and how many channels were ignored."""
        own, bad, postprocessor = raw.select(rows), Rejections(), self._postprocessors[number]
        readings = self._decoders[number].decode(own.values, own.stamps_ns, bad)
        postprocessor.check_clock(readings, own.stamps_ns, bad)
        values = postprocessor.scale(readings, bad)
        _add_rejections(bad, own.index, rejections)
        if bad:
            keep = ~np.isin(readings.row, list(bad))
            readings, values = readings.select(keep), values[keep]
        name, asset = self._groups[number].name, owners.number[rows][readings.row]
        record = own.index[readings.row]
        return Readings(name, owners.names, asset, readings.time_ns, values, record), readings.ignored


def _add_rejections(bad: Rejections, index: Indices, rejections: Rejections) -> None:
    rejections.update({int(index[row]): error for row, error in bad.items()})
