"""The examples in docs/records.md decode as the page says."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from agent.settings import Records, record_format
from connectors.decoding import Decoder
from connectors.record_schema import ChannelField, GroupLayout
from connectors.records import Batch, Partition, Record

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


def record_bytes(language: str, block: str) -> bytes:
    if language == "json":
        return block.strip().encode()
    names: dict[str, Any] = {}
    exec(block, names)
    return bytes(names["value"])


@pytest.mark.parametrize(("settings", "language", "block"), examples())
def test_an_example_decodes_without_loss(settings: str, language: str, block: str) -> None:
    records = Records.model_validate(yaml.safe_load(settings)["records"])
    record = Record(0, START_NS // 1_000_000, b"pump-1", record_bytes(language, block), ())
    decoded = Decoder([LAYOUT], record_format(records)).decode(Batch(Partition("sensors", 0), [record]))
    assert decoded.rejected == []
    [readings] = decoded.readings
    assert int(readings.time_ns[0]) == START_NS
    assert readings.values[0, 0] == np.float32(88.8)


def test_every_format_has_an_example() -> None:
    formats = {yaml.safe_load(settings)["records"]["format"] for settings, _, _ in examples()}
    assert formats == {"wide", "narrow", "chunked", "binary"}
