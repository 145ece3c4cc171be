"""A worker on a real broker: inputs become transitions, alarms and audit."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.alarms.core.inputs import Input
from tests.support.alarm_log import command, event
from tests.support.alarm_workers import AlarmPlant, Worker
from tests.support.raw_batches import produce_raw, raw_batch, raw_record
from tests.support.services.kafka import Broker

pytestmark = pytest.mark.slow


@pytest.fixture
def plant(kafka: Broker, tmp_path: Path, topic_name: str) -> AlarmPlant:
    kafka.create_topic(f"{topic_name}-events", 3)
    return AlarmPlant(kafka.bootstrap, tmp_path, topic_name)


@pytest.fixture
def worker(plant: AlarmPlant) -> Iterator[Worker]:
    started = plant.worker()
    yield started
    started.kill()


def test_inputs_become_transitions_and_present_alarms(plant: AlarmPlant, worker: Worker) -> None:
    asset = "pump-1-a"
    entries: list[Input] = [event(0, 0.9, asset=asset), event(5, 0.9, asset=asset), command(6, "ack", f"wear:{asset}")]
    plant.wait(lambda: plant.exists("inputs"))
    plant.write(("hall-1", entry) for entry in [*entries, event(9, 0.1, asset=asset)])
    plant.wait(lambda: len(plant.read("transitions")) >= 3)
    assert [one["after"] for one in plant.read("transitions")] == ["unacknowledged", "acknowledged", "normal"]
    [audit] = plant.read("audit")
    assert (audit["act"], audit["by"], audit["outcome"]) == ("ack", "ada", "done")
    present = plant.read("alarms")[-1]
    assert (present["alarm"], present["state"], present["occurrences"]) == (f"wear:{asset}", "normal", 1)
    assert present["rationale"]["action"] == "change over to the spare"
    assert present["raised_by"]["evidence"]["supporting"] == 3.0
    assert worker.stop() == 0, worker.text


async def test_records_that_aiokafka_cannot_decode_go_to_the_audit(
    plant: AlarmPlant, worker: Worker, kafka: Broker
) -> None:
    """Header names that are not UTF-8, in both topics that the worker reads."""
    poison = raw_batch([raw_record(0, b"hall-1", b"{}", [(b"\xff\xfe", b"x")])], timestamp_ms=1_700_000_000_000)
    await asyncio.to_thread(plant.wait, lambda: plant.exists("inputs"))
    inputs = plant.topics["inputs"]
    for topic, count in ((f"{plant.name}-events", 3), (inputs, 4)):
        for partition in range(count):
            await produce_raw(kafka.bootstrap, topic, poison, partition=partition)
    entries = [event(0, 0.9, asset="pump-1-a"), event(5, 0.9, asset="pump-1-a")]
    plant.write(("hall-1", entry) for entry in entries)
    await asyncio.to_thread(plant.wait, lambda: len(plant.read("audit")) >= 7 and bool(plant.read("transitions")))
    assert [one["after"] for one in plant.read("transitions")] == ["unacknowledged"]
    assert {one["outcome"] for one in plant.read("audit")} == {"refused"}
    assert worker.stop() == 0, worker.text
