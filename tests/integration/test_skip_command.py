"""`anchormoe-agent skip` on a real broker: what it refuses, what it stores, and that a running agent obeys."""

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agent.cli.main import app
from agent.runtime.pipeline import Pipeline
from agent.runtime.skipped_records import Skip, SkippedRecords
from connectors.kafka.cluster import Cluster
from connectors.kafka.optional_log import OptionalLog
from connectors.records import DEAD_LETTERS, Partition
from tests.support.agent_process import Names, write_plant
from tests.support.kafka_pipeline import Plant, is_read
from tests.support.services.kafka import Broker


class World:
    """A plant.yaml for the command, and an agent on the same topic and group."""

    def __init__(self, kafka: Broker, names: Names, path: Path) -> None:
        kafka.create_topic(names.input, 1)
        redis = "redis://127.0.0.1:1/0"  # the command does not ask it
        self.config = write_plant(path, names, bootstrap=kafka.bootstrap, redis_url=redis)
        self.plant = Plant(kafka.bootstrap, names.input, group=f"anchormoe-{names.base}")
        self.skips_topic = f"{names.base}-skips"

    async def skip(self, place: str, *options: str, reason: str = "ends the agent") -> Result:
        arguments = ["skip", place, "--reason", reason, "--by", "anna", "--config", str(self.config), *options]
        return await asyncio.to_thread(CliRunner().invoke, app, arguments)

    def requests(self) -> SkippedRecords:
        return SkippedRecords(OptionalLog(Cluster(self.plant.bootstrap), self.skips_topic))


@pytest.fixture
def world(kafka: Broker, topic_name: str, tmp_path: Path) -> World:
    return World(kafka, Names(topic_name), tmp_path / "plant.yaml")


async def test_a_skipped_record_becomes_a_dead_letter_and_the_rest_is_read(world: World) -> None:
    await world.plant.send(range(30))
    done = await world.skip(f"{world.plant.topic}:0:13")
    assert done.exit_code == 0, done.output
    assert "@13 will not be used: ends the agent (by anna," in done.output
    agent = await world.plant.run_to_the_end(skips=world.requests())
    assert agent.counters.dead_letters == {"skipped": 1}
    (letter,) = world.plant.sink.of(DEAD_LETTERS)
    assert dict(letter.headers)["dl_offset"] == b"13"
    again = await world.skip(f"{world.plant.topic}:0:14")
    assert again.exit_code == 1
    assert "it was read already" in again.output


async def test_an_agent_that_runs_without_the_topic_notices_when_it_comes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.runtime.skipped_records._LOOK_EVERY_S", 0.2)
    await world.plant.send(range(10))
    requests, asked = world.requests(), False

    async def skipped(agent: Pipeline) -> bool:
        nonlocal asked
        if not asked and is_read(agent, below=10):
            asked = True
            # It is asked for before it is written, so that the agent cannot be faster.
            skips = OptionalLog(Cluster(world.plant.bootstrap), world.skips_topic)
            request = Skip(Partition(world.plant.topic, 0), 14, "later", "anna", "2026-05-01T08:00:00Z")
            await skips.append(request.key, request.encode())
            await skips.close()
            while not requests._skips:  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.05)
            await world.plant.send(range(10, 30))
        return is_read(agent, below=30)

    async with asyncio.TaskGroup() as group:
        following = group.create_task(requests.follow())
        agent = await world.plant.run_until(skipped, skips=requests)
        following.cancel()
    assert agent.counters.dead_letters == {"skipped": 1}


@pytest.mark.parametrize(
    ("place", "code", "expected"),
    [
        ("sensors", 2, "write TOPIC:PARTITION:OFFSET"),
        ("elsewhere:0:1", 2, "is not a topic of the plant's source"),
        ("{topic}:7:0", 1, "the topic has 1 partitions"),
        ("{topic}:0:5", 1, "there is no such record; the log holds 0 to 4"),
    ],
)
async def test_a_record_that_cannot_be_skipped_is_refused(world: World, place: str, code: int, expected: str) -> None:
    await world.plant.send(range(5))
    refused = await world.skip(place.format(topic=world.plant.topic))
    assert refused.exit_code == code
    assert expected in refused.output


async def test_a_reason_is_needed(world: World) -> None:
    refused = await world.skip(f"{world.plant.topic}:0:0", reason=" ")
    assert refused.exit_code == 2
    assert "--reason: say why" in refused.output
