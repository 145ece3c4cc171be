"""The examples in docs/records.md decode as the page says."""

import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import yaml

from agent.settings import Records, record_format
from connectors.decoding import Decoder
from connectors.record_schema import ChannelField, GroupLayout, RecordKind
from connectors.records import Batch, Partition, Record
from tests.support.avro_records import KnownSchemas

PAGE = Path(__file__).parents[4] / "docs" / "records.md"
START_NS = 1_731_744_000_000_000_000
LAYOUT = GroupLayout("pumps", (ChannelField("flow", "flow"), ChannelField("pressure", "pressure")), ("pump-*",))


def examples() -> list[tuple[str, str, str]]:
    """(settings, language, example), each example with the settings that stand before it."""
    settings, found = "", []
    for language, block in re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL):
        if language == "yaml":
            settings = block
        else:
            found.append((settings, language, block))
    return found


def record_bytes(language: str, block: str, kind: str) -> tuple[bytes, KnownSchemas]:
    """The value, and the schema that the example calls number 1, if it has one."""
    if language in ("json", "text", "influx"):
        return block.strip().encode(), KnownSchemas({})
    names: dict[str, Any] = {}
    exec(block, names)
    return bytes(names["value"]), KnownSchemas({1: names.get("schema", {})}, kind)


@pytest.mark.parametrize(("settings", "language", "block"), examples())
def test_an_example_decodes_without_loss(settings: str, language: str, block: str) -> None:
    records = Records.model_validate(yaml.safe_load(settings)["records"])
    kind = {"protobuf": "PROTOBUF", "json-schema": "JSON"}.get(records.format, "AVRO")
    value, schemas = record_bytes(language, block, kind)
    record = Record(0, START_NS // 1_000_000, b"pump-1", value, ())
    decoded = Decoder([LAYOUT], record_format(records), schemas).decode(Batch(Partition("sensors", 0), [record]))
    assert decoded.rejected == []
    [readings] = decoded.readings
    assert int(readings.time_ns[0]) == START_NS
    assert readings.values[0, 0] == np.float32(88.8)


def test_every_format_has_an_example() -> None:
    """Sparkplug's payloads cannot be written into a page; test_sparkplug.py writes them field by field."""
    formats = {yaml.safe_load(settings)["records"]["format"] for settings, _, _ in examples()}
    assert formats | {"sparkplug"} == set(get_args(RecordKind))
