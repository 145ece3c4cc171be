"""A worker whose broker is gone does not wait forever: it ends with a reason, so that it can be restarted."""

from pathlib import Path

import pytest

from tests.conftest import KafkaFactory
from tests.support.alarm_log import event
from tests.support.alarm_workers import AlarmPlant

pytestmark = [pytest.mark.slow, pytest.mark.timeout(280)]


def test_a_worker_without_its_broker_ends_and_says_why(
    kafka_factory: KafkaFactory, tmp_path: Path, topic_name: str
) -> None:
    broker = kafka_factory()
    plant = AlarmPlant(broker.bootstrap, tmp_path, topic_name, session="6s", no_progress="5s")
    worker = plant.worker()
    try:
        plant.wait(lambda: plant.exists("inputs"))
        plant.write(("hall-1", event(second, 0.9, asset="pump-1-a")) for second in (0, 5))
        plant.wait(lambda: len(plant.read("transitions")) == 1)
        broker.kill()
        plant.wait(lambda: not worker.alive, timeout_s=120)
        assert worker.stop() == 1
        assert "no progress for" in worker.text
    finally:
        worker.kill()
