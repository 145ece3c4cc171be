"""Every command of ours that the runbook wants to be looked at first runs against a plant on real services."""

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from agent.cli.main import app
from tests.architecture.test_alert_rules import ALERTS, PARTS, sections
from tests.conftest import RedisFactory
from tests.support.alarm_workers import rule
from tests.support.services.kafka import Broker

BUNDLES = Path(__file__).parents[2] / "configs" / "bundles"


def first_looks() -> list[str]:
    """Each once, without other people's programs."""
    found = [re.findall(r"```sh\n(.*?)```", sections()[name.lower()].split(PARTS[2])[0], re.DOTALL) for name in ALERTS]
    lines = [line for [block] in found for line in block.splitlines()]
    return sorted({line for line in lines if line.startswith("anchormoe-agent ")})


@pytest.fixture
def plant(kafka: Broker, redis_factory: RedisFactory, topic_name: str, tmp_path: Path) -> Path:
    """As README's, with alarms; nothing has been read yet, and no agent runs."""
    topics = {each: f"{topic_name}-{each.replace('_', '-')}" for each in ("events", "states", "dead_letters")}
    alarms = {each: f"{topic_name}-{each}" for each in ("inputs", "transitions", "alarms", "audit")}
    compacted = {"cleanup.policy": "compact"}
    for name in (topic_name, *topics.values(), *alarms.values(), f"{topic_name}-activations"):
        kafka.create_topic(name, config=compacted if name.endswith(("states", "alarms", "activations")) else {})
    content: dict[str, Any] = {
        "namespace": topic_name,
        "source": {"kind": "kafka", "bootstrap": kafka.bootstrap, "topics": [topic_name]},
        "groups": [{"name": "pumps", "assets": ["pump-*"], "model": {"bundle": str(BUNDLES / "pump")}}],
        "store": {"kind": "redis", "url": redis_factory("redis").url},
        "sinks": [{"kind": "kafka", "topics": topics}],
        "models": {"directory": str(BUNDLES)},
        "alarms": {"topics": alarms, "rules": [rule("wear", states=["worn"])], "http": None},
        "http": None,
    }
    path = tmp_path / "plant.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.slow
async def test_the_first_look_of_every_alert_can_be_taken(plant: Path) -> None:
    looks = first_looks()
    assert len(looks) >= 8
    refused = {}
    for line in looks:
        words = [shorter(word, plant) for word in shlex.split(line)[1:]]
        result = await asyncio.to_thread(CliRunner().invoke, app, words)
        if result.exit_code:
            refused[line] = result.output[-400:] + repr(result.exception)
    assert refused == {}


def shorter(word: str, plant: Path) -> str:
    """With this plant's files, and without a minute of waiting."""
    return {
        "plant.yaml": str(plant),
        "bundle.tar.gz": str(plant.with_name("bundle.tar.gz")),
        "bundles/pump": str(BUNDLES / "pump"),
        "1m": "1s",
    }.get(word, word)
