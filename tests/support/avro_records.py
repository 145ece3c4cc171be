"""Avro values as Confluent's serializer writes them, made by fastavro, and schemas without a registry."""

import io
import json
from collections.abc import Collection, Mapping
from typing import Any

import fastavro

from connectors.decoding.registered import Schema, SchemaId
from connectors.errors import RecordError

FLAT: dict[str, Any] = {
    "type": "record",
    "name": "Reading",
    "namespace": "plant",
    "fields": [
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "flow", "type": "double"},
        {"name": "pressure", "type": ["null", "float"], "default": None},
    ],
}


def encode(document: dict[str, Any], schema: dict[str, Any] = FLAT, *, id: int = 7) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), document)
    return b"\x00" + id.to_bytes(4) + out.getvalue()


class KnownSchemas:
    """A source that has what it is given."""

    def __init__(self, schemas: Mapping[Any, Any], kind: str = "AVRO") -> None:
        texts = {id: text if isinstance(text, str) else json.dumps(text) for id, text in schemas.items()}
        self._schemas = {id: Schema(id, kind, text) for id, text in texts.items()}

    async def load(self, ids: Collection[SchemaId]) -> None:
        """They are all there."""

    def get(self, id: SchemaId) -> Schema | RecordError:
        return self._schemas.get(id) or RecordError("unknown_schema", f"no schema {id}")

    async def close(self) -> None:
        """Nothing is open."""
