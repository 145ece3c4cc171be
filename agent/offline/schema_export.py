"""Finds the schemas that the records of a log name, and writes them into a directory."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from agent.offline.replay import BoundedSource
from agent.settings.connections import schema_source
from agent.settings.records import Records
from connectors.atomic_file import replace_file
from connectors.decoding.registered import SchemaId, framed_value, schema_ids
from connectors.errors import RecordError
from connectors.records import Partition
from connectors.schema_registry import schema_document

_POLL_S = 1.0
_AT_ONCE = 5_000


@dataclass(slots=True)
class Exported:
    records: int = 0
    written: list[SchemaId] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


class _Reader:
    """An owner that wants nothing but the records."""

    async def assigned(self, partitions: Collection[Partition]) -> None:
        """Reading starts by itself."""

    async def revoked(self, partitions: Collection[Partition]) -> None:
        """Nothing is kept."""


async def export_schemas(records: Records, source: BoundedSource, directory: Path) -> Exported:
    """Raises `ConnectorError` where the registry is away: what a directory lacks would be found out too late."""
    schemas = schema_source(records)
    assert schemas is not None
    done, known = Exported(), set[SchemaId]()
    await source.start(_Reader())
    try:
        while not source.exhausted:
            for batch in await source.poll(max_records=_AT_ONCE, timeout_s=_POLL_S):
                done.records += len(batch.records)
                known |= schema_ids(map(framed_value, batch.records))
        await schemas.load(known)
        for id in sorted(known, key=str):
            schema = schemas.get(id)
            if isinstance(schema, RecordError):
                done.unknown.append(schema.detail)
                continue
            document = orjson.dumps(schema_document(schema), option=orjson.OPT_INDENT_2)
            replace_file(directory / f"{id}.json", document)
            done.written.append(id)
    finally:
        await source.close()
        await schemas.close()
    return done
