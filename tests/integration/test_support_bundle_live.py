"""A support bundle of a plant on a real broker whose agent does not run."""

import asyncio
import json
import tarfile
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from agent.cli.main import app
from tests.integration.test_kafka_connector import fill
from tests.support.services.kafka import Broker

BUNDLE = Path(__file__).parents[2] / "configs" / "bundles" / "pump"


@pytest.mark.slow
async def test_what_is_committed_is_asked_of_kafka(kafka: Broker, topic_name: str, tmp_path: Path) -> None:
    await fill(kafka, topic_name, records=3, partitions=2)
    content = {
        "namespace": "bundled",
        "source": {"kind": "kafka", "bootstrap": kafka.bootstrap, "topics": [topic_name]},
        "groups": [{"name": "pumps", "assets": ["pump-*"], "model": {"bundle": str(BUNDLE)}}],
        "sinks": [{"kind": "jsonl", "directory": "out"}],
        "http": None,
    }
    plant, out = tmp_path / "plant.yaml", tmp_path / "bundle.tar.gz"
    plant.write_text(yaml.safe_dump(content))
    command = ["support-bundle", "--config", str(plant), "--out", str(out)]
    result = await asyncio.to_thread(lambda: CliRunner().invoke(app, command))
    assert result.exit_code == 0, result.output
    with tarfile.open(out) as archive:
        stored = archive.extractfile("support-bundle/commits.json")
        assert stored is not None
        assert json.loads(stored.read()) == {
            f"{topic_name}[{partition}]": {"committed": 0, "end": 3, "behind": 3} for partition in (0, 1)
        }
