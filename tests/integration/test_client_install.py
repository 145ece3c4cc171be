"""What an alert consumer installs: the wheel without extras, in an empty environment, reading from the real broker."""

import asyncio
import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from connectors.kafka.cluster import Cluster
from connectors.kafka.sink import Delivery, KafkaSink
from connectors.records import DEAD_LETTERS, EVENTS, STATES
from tests.support.event_samples import samples
from tests.support.services.kafka import Broker
from tests.support.services.requirements import fetch

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "numpy", "redis", "uvicorn", "starlette", "msgspec", "typer", "faust-streaming", "pyyaml"}
READER = """
import asyncio, json, sys
from contextlib import aclosing
from agent.client import read_events
from agent.contracts import ExplainedEvent

async def main(bootstrap, topic, count):
    async with aclosing(read_events(bootstrap, topic=topic)) as events:
        async for event in events:
            explained = isinstance(event.data, ExplainedEvent)
            print(json.dumps([event.id, event.asset, event.state, explained]), flush=True)
            count -= 1
            if not count:
                break

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
heavy = {"torch", "numpy", "redis", "uvicorn"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds our wheel and what it asks for, nothing else."""
    directory = tmp_path_factory.mktemp("client")
    wheel = _wheel(directory)
    venv.create(directory / "venv", with_pip=True)
    python = directory / "venv" / "bin" / "python"
    _pip(python, "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), str(wheel))
    return python


def _wheel(directory: Path) -> Path:
    """Built from a copy: setuptools leaves its work beside the sources."""
    source = directory / "source"
    for package in ("agent", "anchormoe", "connectors"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    wheels = directory / "wheels"
    _pip(Path(sys.executable), "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(source))
    [wheel] = wheels.glob("*.whl")
    return wheel


def _pip(python: Path, *arguments: str) -> None:
    fetch([str(python), "-m", "pip", "--disable-pip-version-check", *arguments])


def test_nothing_heavy_comes_along(python: Path) -> None:
    listed = subprocess.run([python, "-m", "pip", "list", "--format", "json"], capture_output=True, check=True).stdout
    installed = {entry["name"].lower() for entry in json.loads(listed)}
    assert "anchormoe-agent" in installed
    assert installed & HEAVY == set()


def test_the_command_says_what_to_install(python: Path) -> None:
    done = subprocess.run([python.parent / "anchormoe-agent", "run"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "install anchormoe-agent[serve] to run the agent" in done.stderr
    assert "Traceback" not in done.stderr


async def test_it_reads_typed_events_from_the_broker(
    python: Path, kafka: Broker, topic_name: str, tmp_path: Path
) -> None:
    events = samples().events
    kafka.create_topic(topic_name, 1)
    topics = {EVENTS: topic_name, STATES: f"{topic_name}-states", DEAD_LETTERS: f"{topic_name}-dead"}
    sink = KafkaSink(Cluster(kafka.bootstrap), Delivery(topics))
    await sink.start()
    try:
        await sink.write(events)
    finally:
        await sink.close()
    script = tmp_path / "reader.py"
    script.write_text(READER)
    command = [str(python), str(script), kafka.bootstrap, topic_name, str(len(events))]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    read = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one[0] for one in read] == [dict(message.headers)["ce_id"].decode() for message in events]
    assert any(explained for *_, explained in read)
