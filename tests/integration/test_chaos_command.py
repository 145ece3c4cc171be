"""`anchormoe-agent chaos` as people run it: names of its own, its result, and nothing else touched."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import RedisFactory
from tests.support.agent_process import Names, create_topics, write_plant
from tests.support.services.kafka import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def topics_of(kafka: Broker) -> set[str]:
    return set(kafka.call_admin(lambda admin: admin.list_topics())) - {"__consumer_offsets"}


async def test_an_experiment_leaves_the_cluster_as_it_was(
    kafka: Broker, redis_factory: RedisFactory, topic_name: str, tmp_path: Path
) -> None:
    redis, names = redis_factory("valkey"), Names(topic_name)
    create_topics(kafka, names, 1)
    with redis.connect() as client:
        client.set(f"{topic_name}:{topic_name}:somebody's", "precious")
    plant = write_plant(tmp_path / "plant.yaml", names, bootstrap=kafka.bootstrap, redis_url=redis.url)
    before = await asyncio.to_thread(topics_of, kafka)
    options = [
        "--only",
        "redis-flush",
        "--faults",
        "1",
        "--agents",
        "1",
        "--assets",
        "2",
        "--logs",
        tmp_path / "logs",
    ]
    command = [sys.executable, "-m", "agent.cli.main", "chaos", "-c", plant, "--json", *options]
    done = await asyncio.to_thread(subprocess.run, list(map(str, command)), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["same"], found["comparison"]["missing"], found["comparison"]["extra"]) == (True, [], [])
    assert [fault["fault"] for fault in found["faults"]] == ["redis-flush"]
    assert found["namespace"].startswith("chaos-")
    assert await asyncio.to_thread(topics_of, kafka) == before
    with redis.connect() as client:
        assert client.keys() == [f"{topic_name}:{topic_name}:somebody's".encode()]
    assert (tmp_path / "logs" / "agent-1.log").exists()
