"""The payloads in docs/sources.md decode with the settings that stand before them."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from agent.settings import Records, record_format
from connectors.decoding import Decoder
from connectors.record_schema import ChannelField, GroupLayout
from connectors.records import Batch, Partition, Record

PAGE = Path(__file__).parents[4] / "docs" / "sources.md"
START_NS = 1_731_744_000_000_000_000
LAYOUT = GroupLayout("pumps", (ChannelField("flow", "flow"), ChannelField("pressure", "pressure")), ("*pump-*",))
TOPIC = b"spBv1.0/north/DBIRTH/edge-1/pump-1"


def examples() -> list[tuple[str, str]]:
    """(settings, payload), each payload with the settings that stand before it."""
    settings, found = "", []
    for language, block in re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL):
        if language == "yaml":
            settings = block
        elif language in ("json", "text"):
            found.append((settings, block))
    return found


@pytest.mark.parametrize(("settings", "block"), examples())
def test_a_bridges_payload_is_read(settings: str, block: str) -> None:
    records = Records.model_validate(yaml.safe_load(settings)["records"])
    value = bytes.fromhex(block) if records.format == "sparkplug" else block.strip().encode()
    record = Record(0, START_NS // 1_000_000, b"pump-1", value, [("mqtt_topic", TOPIC)])
    decoder = Decoder([LAYOUT], record_format(records))
    decoded = decoder.decode(Batch(Partition("sensors", 0), [record]), decoder.make_births(()))
    assert decoded.rejected == []
    [readings] = decoded.readings
    assert readings.assets[readings.asset[0]] in ("pump-1", "north/edge-1/pump-1")
    assert readings.time_ns.tolist() == [START_NS]
    assert readings.values[0, 0] == np.float32(88.8)


def test_there_is_a_payload_for_every_bridge() -> None:
    sections = re.findall(r"^## (.*)$", PAGE.read_text(), re.MULTILINE)
    assert len(examples()) == len(sections) - 1  # the last one says what a bridge cannot give
