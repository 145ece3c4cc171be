"""A plant on disk for the offline commands: its configuration, a bundle's description, and records to judge."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import yaml

from agent.settings import LoadedPlant, load_plant
from anchormoe.bundle.config import BundleConfig
from connectors.records import Record
from tests.support.plant import CHANNELS, CLASSES, PERIOD_NS, ThresholdModel

START_MS = 1_760_000_000_000
FACTS = BundleConfig(
    name="threshold",
    version="1",
    digest="",
    recipe="kernel",
    classes=CLASSES,
    channels=CHANNELS,
    units=("", ""),
    period_ns=PERIOD_NS,
    length=4,
    patch_length=1,
    patch_stride=1,
    alignment="sliding",
    unequal_length=False,
)


def write_plant(directory: Path, **sections: Any) -> Path:
    """`sections` replace those of a plant that reads files and writes JSON lines."""
    (directory / "bundle").mkdir(exist_ok=True)
    (directory / "bundle" / "config.json").write_text(json.dumps(FACTS.to_dict()))
    content: dict[str, Any] = {
        "namespace": "hall",
        "source": {"kind": "file", "paths": ["*.yaml"], "format": "jsonl"},
        "groups": [
            {
                "name": "pumps",
                "assets": ["pump-*"],
                "model": {"bundle": "bundle"},
                "window": {"hop": 2, "lateness": 1},
                "hysteresis": {"enabled": False},
                "max_assets": 16,
            }
        ],
        "sinks": [{"kind": "jsonl", "directory": str(directory / "out")}],
        "http": None,
    }
    path = directory / "plant.yaml"
    path.write_text(yaml.safe_dump(content | sections))
    return path


def load_offline_plant(path: Path) -> LoadedPlant:
    return load_plant(path, {})


def load_rule(directory: Path) -> Any:
    """Instead of a model: `high` where the mean flow is above 0."""
    return _Rule()


class _Rule(ThresholdModel):
    config = SimpleNamespace(**{name: getattr(FACTS, name) for name in FACTS.__slots__} | {"digest": "d" * 64})


def records(count: int, *, assets: tuple[str, ...] = ("pump-1", "pump-2")) -> list[Record]:
    """One a second and asset; every flow is high for ten seconds, then low for ten. Every 17th record is broken."""
    made: list[Record] = []
    for second in range(count):
        for number, asset in enumerate(assets):
            at = START_MS + second * 1000
            value = orjson.dumps({"ts": at, "flow": 1.0 if (second + 5 * number) // 10 % 2 else -1.0, "pressure": 2.0})
            value = value[:9] if len(made) % 17 == 16 else value
            made.append(Record(len(made), at, asset.encode(), value, (("own", b"1"),)))
    return made
