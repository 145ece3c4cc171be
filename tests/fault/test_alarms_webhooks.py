"""A receiver that is down while the worker is killed is told all the same, once it is back."""

from pathlib import Path

import pytest

from tests.support.alarm_log import event
from tests.support.alarm_receiver import Receiver, receiving
from tests.support.alarm_workers import AlarmPlant
from tests.support.services.kafka import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]


def test_what_a_receiver_did_not_accept_survives_the_worker(
    kafka: Broker, tmp_path: Path, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_KEY", "key")
    monkeypatch.setenv("HOOK_TOKEN", "token")
    with receiving(Receiver("key", "token", answers=[500] * 10_000)) as receiver:
        hook = {
            "name": "am",
            "url": receiver.url,
            "format": "alertmanager",
            "secret": {"env": "HOOK_KEY"},
            "token": {"env": "HOOK_TOKEN"},
            "retries": {"attempts": 2, "first_pause": "10ms"},
            "repeat_every": "500ms",
        }
        plant = AlarmPlant(kafka.bootstrap, tmp_path, topic_name, webhooks=[hook], session="6s")
        first = plant.worker()
        try:
            plant.wait(lambda: plant.exists("inputs"))
            plant.write(("hall-1", event(second, 0.9, asset="pump-1-a")) for second in (0, 5))
            plant.wait(lambda: len(receiver.answers) < 10_000)
        finally:
            first.kill()
        receiver.answers.clear()
        second = plant.worker()
        try:
            plant.wait(lambda: bool(receiver.calls))
        finally:
            second.kill()
    assert receiver.calls[0][0]["labels"]["alarm"] == "wear:pump-1-a"
    assert "endsAt" not in receiver.calls[0][0]
    assert receiver.complaints == []
