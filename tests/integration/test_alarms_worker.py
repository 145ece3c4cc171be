"""A worker on a real broker: inputs become transitions, alarms and audit."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.alarms.core.inputs import Input
from tests.support.alarm_log import command, event
from tests.support.alarm_workers import AlarmPlant, Worker
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
