"""JSON with the id of a JSON Schema in front: wide records behind a prefix. Pure.

The registry knows the schema; the record is checked by itself, as every wide record is, so the id is only looked up.
"""

from collections.abc import Sequence

import numpy as np

from connectors.decoding.assets import AssetField, Key
from connectors.decoding.readings import Indices, RawReadings, Rejections, Times, in_log_order
from connectors.decoding.registered import SchemaSource, by_schema
from connectors.decoding.wide import WideDecoder
from connectors.record_schema import GroupLayout, RecordFormat

KIND = "JSON"


class JsonSchemaDecoder:
    """Decodes the records of one group."""

    def __init__(self, group: GroupLayout, format: RecordFormat, schemas: SchemaSource) -> None:
        self._wide, self._schemas, self._channels = WideDecoder(group, format), schemas, len(group.channels)

    def decode(self, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections) -> RawReadings:
        parts = []
        for found in by_schema(values, self._schemas, KIND, rejections):
            bad, rows = Rejections(), np.array(found.rows, dtype=np.int64)
            readings = self._wide.decode(found.bodies, stamps_ns[rows], bad)
            rejections.update({found.rows[row]: error for row, error in bad.items()})
            parts.append(readings._replace(row=rows[readings.row]))
        return in_log_order(parts, self._channels)


class JsonSchemaAssetField:
    """Reads the asset id out of the JSON."""

    def __init__(self, field: str, schemas: SchemaSource) -> None:
        self._field, self._schemas = AssetField(field), schemas

    def read(self, values: Sequence[bytes], rejections: Rejections) -> tuple[list[Key], Indices]:
        """The ids, and the indices of the values that have one."""
        found: dict[int, Key] = {}
        for each in by_schema(values, self._schemas, KIND, rejections):
            bad = Rejections()
            assets, good = self._field.read(each.bodies, bad)
            rejections.update({each.rows[row]: error for row, error in bad.items()})
            found |= {each.rows[row]: asset for row, asset in zip(good.tolist(), assets, strict=True)}
        rows = sorted(found)
        return [found[row] for row in rows], np.array(rows, dtype=np.int64)
