"""The decoder: bytes of a batch in, columns per asset group out. One bad record never affects another. Pure."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from connectors.decoding.assets import AssetDirectory, AssetField, Owners
from connectors.decoding.binary import BinaryDecoder
from connectors.decoding.chunked import ChunkDecoder
from connectors.decoding.narrow import NarrowDecoder
from connectors.decoding.postprocess import Postprocessor
from connectors.decoding.raw_batch import RawBatch
from connectors.decoding.readings import Columns, Decoded, Indices, Readings, Rejected, Rejections, Times
from connectors.decoding.wide import WideDecoder
from connectors.record_schema import GroupLayout, RecordFormat
from connectors.records import Batch


class GroupDecoder(Protocol):
    """One format for one group. `stamps_ns` are the records' own times; what is bad goes to `rejections` by index."""

    def columns(self, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections) -> Columns: ...


_KINDS: dict[str, type[WideDecoder] | type[NarrowDecoder] | type[ChunkDecoder] | type[BinaryDecoder]] = {
    "wide": WideDecoder,
    "narrow": NarrowDecoder,
    "chunked": ChunkDecoder,
    "binary": BinaryDecoder,
}


class Decoder:
    """Decodes the records of one format. Whether a record is good depends on itself alone, never on its batch."""

    def __init__(self, groups: Sequence[GroupLayout], format: RecordFormat) -> None:
        if format.kind == "binary" and format.asset_from == "field":
            raise ValueError("a binary chunk has no field for the asset: use the key")
        self._groups = tuple(groups)
        self._format = format
        self._directory = AssetDirectory(groups)
        self._asset_field = AssetField(format.asset_field) if format.asset_from == "field" else None
        self._decoders: list[GroupDecoder] = [_KINDS[format.kind](group, format) for group in groups]
        self._finishers = [Postprocessor(group, format.max_clock_skew_ns) for group in groups]

    def decode(self, batch: Batch) -> Decoded:
        """1. size  2. asset and group  3. each group's columns  4. clock, scale, finiteness."""
        rejections: Rejections = {}
        given = self._named(RawBatch.of(batch.records, self._format.max_bytes, rejections), rejections)
        owners = self._directory.owners(given.keys)
        ignored = self._refuse_unowned(owners, given.index, rejections)
        by_group = [np.flatnonzero(owners.group == number) for number in range(len(self._groups))]
        found = [
            self._readings(number, rows, given, owners, rejections) for number, rows in enumerate(by_group) if len(rows)
        ]
        rejected = [Rejected.of(index, rejections[index]) for index in sorted(rejections)]
        readings, ignored_channels = [part for part, _ in found if len(part.record)], sum(count for _, count in found)
        return Decoded(readings, rejected, ignored, ignored_channels)

    def _named(self, given: RawBatch, rejections: Rejections) -> RawBatch:
        """The keys are the assets, unless a field is."""
        if self._asset_field is None:
            return given
        bad: Rejections = {}
        names, good = self._asset_field.names(given.values, bad)
        _report(bad, given.index, rejections)
        return given.select(good).named(names)

    def _refuse_unowned(self, owners: Owners, index: Indices, rejections: Rejections) -> int:
        """How many were ignored."""
        ignored = 0
        for row in np.flatnonzero(owners.group < 0).tolist():
            error = owners.error(row)
            if error.reason == "unknown_asset" and self._format.on_unknown_asset == "ignore":
                ignored += 1
            else:
                rejections[int(index[row])] = error
        return ignored

    def _readings(
        self, number: int, rows: Indices, given: RawBatch, owners: Owners, rejections: Rejections
    ) -> tuple[Readings, int]:
        """Of one group, and how many channels were ignored."""
        mine, bad, finisher = given.select(rows), Rejections(), self._finishers[number]
        columns = self._decoders[number].columns(mine.values, mine.stamps_ns, bad)
        finisher.check_clock(columns, mine.stamps_ns, bad)
        values = finisher.scaled(columns, bad)
        _report(bad, mine.index, rejections)
        if bad:
            keep = ~np.isin(columns.row, list(bad))
            columns, values = columns.only(keep), values[keep]
        name, asset = self._groups[number].name, owners.number[rows][columns.row]
        record = mine.index[columns.row]
        return Readings(name, owners.names, asset, columns.time_ns, values, record), columns.ignored


def _report(bad: Rejections, index: Indices, rejections: Rejections) -> None:
    rejections.update({int(index[row]): error for row, error in bad.items()})
