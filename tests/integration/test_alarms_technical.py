"""Every technical condition, from the agent's event to an alarm of its own, on a real broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.alarms.core.catalogue import split_alarm_id
from agent.web.users import add_user
from tests.support.alarm_workers import AlarmPlant, Worker, rule
from tests.support.event_samples import samples
from tests.support.services.kafka import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]

CONDITIONS = {
    "silent": {"technical": "no_data"},
    "lost": {"technical": "channel_dropout"},
    "refused": {"technical": "model_refused"},
    "late": {"technical": "agent_lag", "limit": "1m"},
    "clock": {"technical": "clock_back"},
}


@pytest.fixture
def plant(kafka: Broker, tmp_path: Path, topic_name: str) -> AlarmPlant:
    kafka.create_topic(f"{topic_name}-events", 3)
    return AlarmPlant(
        kafka.bootstrap,
        tmp_path,
        topic_name,
        tick="500ms",
        consoles=[{"name": "hall", "assets": ["pump-*"]}],
        rules=[rule(name, priority="low", **facts) for name, facts in CONDITIONS.items()],
        max_event_age="36500d",
        http={"port": 0, "users": "users.yaml"},
    )


@pytest.fixture
def worker(plant: AlarmPlant) -> Iterator[Worker]:
    started = plant.worker()
    plant.wait(lambda: plant.exists("inputs"))
    yield started
    started.kill()


def test_every_technical_event_raises_its_alarm(plant: AlarmPlant, worker: Worker) -> None:
    """The events are the agent's own, written long after the ends of their windows, so the lag alarm is raised, too."""
    plant.send_events(samples().events)
    plant.wait(lambda: raised(plant).keys() >= CONDITIONS.keys() and "refused:pumps" in alarms_raised(plant))
    found = raised(plant)
    assert found.keys() == CONDITIONS.keys()
    assert {one["kind"] for one in found.values()} == {"technical"}
    assert {split_alarm_id(one["alarm"])[1] for name, one in found.items() if name != "refused"} == {"pump-1"}
    assert found["lost"]["channel"] == "q"
    token = add_user(plant.config.parent / "users.yaml", "ada", "operate")
    answer = plant.alarm("ack", "refused:pumps", "--url", plant.url(worker), token=token)
    assert answer.stdout == "refused:pumps: ack done by ada\n", answer.stderr


def alarms_raised(plant: AlarmPlant) -> set[str]:
    """A bundle is refused for a whole group; `unknown` states raise the same rule for their asset."""
    return {one["alarm"] for one in plant.read("transitions") if one["change"] == "raised"}


def raised(plant: AlarmPlant) -> dict[str, dict[str, Any]]:
    """The first raise per rule."""
    found = [one for one in plant.read("transitions") if one["change"] == "raised"]
    return {one["rule"]: one for one in reversed(found)}
