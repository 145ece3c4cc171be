"""The schemas that a log names end up in a directory that reads the same."""

import json
from pathlib import Path
from typing import Any

from agent.offline.schema_export import export_schemas
from agent.settings.records import Records
from connectors.memory import MemoryLog, MemorySource
from connectors.records import Partition
from connectors.schema_registry import SchemaDirectory
from tests.support.avro_records import FLAT, encode

HOME = Partition("readings", 0)


async def test_every_schema_of_the_log_is_written_and_unknown_ones_are_named(tmp_path: Path) -> None:
    before, after = tmp_path / "registry", tmp_path / "export"
    before.mkdir()
    after.mkdir()
    (before / "7.json").write_text(json.dumps({"schema": json.dumps(FLAT), "named": "readings-value version 1"}))
    log = MemoryLog([HOME])
    reading = {"ts": 1, "flow": 1.0, "pressure": None}
    for id in (7, 7, 9):
        log.append(HOME, encode(reading, id=id), key=b"pump-1", timestamp_ms=0)
    log.append(HOME, None, key=b"pump-1", timestamp_ms=0)
    log.append(HOME, b"rubbish", key=b"pump-1", timestamp_ms=0)
    records = Records.model_validate({"format": "avro", "registry": {"directory": str(before)}})
    source: Any = MemorySource(log, bounded=True)
    done = await export_schemas(records, source, after)
    assert (done.records, done.written) == (5, [7])
    assert ["9.json" in reason for reason in done.unknown] == [True]
    ours, theirs = SchemaDirectory(after), SchemaDirectory(before)
    await ours.load({7})
    await theirs.load({7})
    assert ours.get(7) == theirs.get(7)
