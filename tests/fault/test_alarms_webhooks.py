"""Receivers that fail or reject: no alarm is lost, and the worker goes on."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.alarm_log import event
from tests.support.alarm_receiver import CheckingReceiver, receiving
from tests.support.alarm_workers import AlarmPlant
from tests.support.services.kafka import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_KEY", "key")
    monkeypatch.setenv("HOOK_TOKEN", "token")


def hook(name: str, url: str) -> dict[str, Any]:
    return {
        "name": name,
        "url": url,
        "format": "alertmanager",
        "secret": {"env": "HOOK_KEY"},
        "token": {"env": "HOOK_TOKEN"},
        "retries": {"attempts": 2, "first_pause": "10ms"},
        "repeat_every": "500ms",
    }


def test_what_a_receiver_did_not_accept_is_sent_after_a_restart(kafka: Broker, tmp_path: Path, topic_name: str) -> None:
    with receiving(CheckingReceiver("key", "token", answers=[500] * 10_000)) as receiver:
        hooks = [hook("am", receiver.url)]
        plant = AlarmPlant(kafka.bootstrap, tmp_path, topic_name, webhooks=hooks, session="6s")
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
    assert receiver.errors == []


def test_an_error_page_that_is_not_utf8_does_not_stop_the_worker(
    kafka: Broker, tmp_path: Path, topic_name: str
) -> None:
    rejecting = CheckingReceiver("key", "token", answers=[400] * 10_000, page="Ungültige Anfrage".encode("latin-1"))
    with receiving(rejecting), receiving(CheckingReceiver("key", "token")) as accepting:
        hooks = [hook("rejecting", rejecting.url), hook("accepting", accepting.url)]
        plant = AlarmPlant(kafka.bootstrap, tmp_path, topic_name, webhooks=hooks, session="6s")
        worker = plant.worker()
        try:
            plant.wait(lambda: plant.exists("inputs"))
            plant.write(("hall-1", event(second, 0.9, asset="pump-1-a")) for second in (0, 5))
            plant.wait(lambda: len(rejecting.answers) < 9_998)  # the firing alarm is repeated
            plant.write(("hall-1", event(second, 0.9, asset="pump-1-b")) for second in (6, 11))
            plant.wait(lambda: "pump-1-b" in {alert["labels"]["asset"] for call in accepting.calls for alert in call})
            assert worker.stop() == 0, worker.text
        finally:
            worker.kill()
    assert "webhook rejected alarms" in worker.text
    assert "/api/v2/alerts" not in worker.text
    assert rejecting.errors + accepting.errors == []
