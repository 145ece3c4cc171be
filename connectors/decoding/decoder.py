"""Decodes a batch of records into columns per asset group; a bad record never affects another. Pure."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from connectors.decoding.assets import AssetDirectory, AssetField, Owners
from connectors.decoding.binary import BinaryDecoder
from connectors.decoding.chunked import ChunkDecoder
from connectors.decoding.narrow import NarrowDecoder
from connectors.decoding.postprocess import Postprocessor
from connectors.decoding.raw_batch import RawBatch
from connectors.decoding.readings import Decoded, Indices, RawReadings, Readings, Rejected, Rejections, Times
from connectors.decoding.wide import WideDecoder
from connectors.record_schema import GroupLayout, RecordFormat
from connectors.records import Batch


class GroupDecoder(Protocol):
    """One format for one group. `stamps_ns` are the records' timestamps; rejections are by index into `values`."""

    def decode(self, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections) -> RawReadings: ...


_DECODERS: dict[str, type[WideDecoder] | type[NarrowDecoder] | type[ChunkDecoder] | type[BinaryDecoder]] = {
    "wide": WideDecoder,
    "narrow": NarrowDecoder,
    "chunked": ChunkDecoder,
    "binary": BinaryDecoder,
}


class Decoder:
    """Decodes the records of one format. Whether a record is accepted depends on itself alone, never on its batch."""

    def __init__(self, groups: Sequence[GroupLayout], format: RecordFormat) -> None:
        if format.kind == "binary" and format.asset_from == "field":
            raise ValueError("a binary chunk has no field for the asset: use the key")
        self._groups = tuple(groups)
        self._format = format
        self._directory = AssetDirectory(groups)
        self._asset_field = AssetField(format.asset_field) if format.asset_from == "field" else None
        self._decoders: list[GroupDecoder] = [_DECODERS[format.kind](group, format) for group in groups]
        self._postprocessors = [Postprocessor(group, format) for group in groups]

    @property
    def accepts_resets(self) -> bool:
        return self._format.accept_resets

    def decode(self, batch: Batch) -> Decoded:
        """1. size  2. asset and group  3. each group's columns  4. clock skew, scaling, finiteness."""
        rejections: Rejections = {}
        raw = RawBatch.from_records(batch.records, self._format.max_bytes, rejections)
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
        return Decoded(readings, rejected, ignored, sum(ignored_channels for _, ignored_channels in decoded))

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
