"""From published events to an acknowledged alarm: the worker, its HTTP API, the commands and the receivers."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from pydantic import BaseModel

from agent.contracts.alarms import AlarmTransition, AuditRecord, PresentAlarm
from agent.web.users import add_user
from connectors.records import Message
from tests.support.alarm_receiver import CheckingReceiver, receiving
from tests.support.alarm_workers import AlarmPlant, Worker, rule
from tests.support.event_samples import samples
from tests.support.services.kafka import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(280)]
TOKEN = {"Authorization": "Bearer let-me-in"}


@pytest.fixture
def receivers() -> Iterator[dict[str, CheckingReceiver]]:
    alertmanager = CheckingReceiver("key", "token", answers=[500, 0])
    generic = CheckingReceiver("key", "token", alertmanager=False)
    with receiving(alertmanager), receiving(generic):
        yield {"alertmanager": alertmanager, "generic": generic}


@pytest.fixture
def plant(
    kafka: Broker,
    tmp_path: Path,
    topic_name: str,
    receivers: dict[str, CheckingReceiver],
    monkeypatch: pytest.MonkeyPatch,
) -> AlarmPlant:
    secrets = {"HOOK_KEY": "key", "HOOK_TOKEN": "token", "PAGE_TOKEN": "let-me-in"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    hooks = [
        {
            "name": name,
            "url": receiver.url,
            "format": name,
            "secret": {"env": "HOOK_KEY"},
            "token": {"env": "HOOK_TOKEN"},
            "timeout": "1s",
            "retries": {"attempts": 2, "first_pause": "10ms"},
            "repeat_every": "2s",
        }
        for name, receiver in receivers.items()
    ]
    kafka.create_topic(f"{topic_name}-events", 3)
    return AlarmPlant(
        kafka.bootstrap,
        tmp_path,
        topic_name,
        tick="500ms",
        consoles=[{"name": "hall", "assets": ["*"]}],
        rules=[rule("odd", states=["a", "c"], raise_at=0.4), rule("lost", technical="channel_dropout", priority="low")],
        max_event_age="36500d",
        webhooks=hooks,
        http={"port": 0, "token": {"env": "PAGE_TOKEN"}, "users": "users.yaml"},
    )


@pytest.fixture
def worker(plant: AlarmPlant) -> Iterator[Worker]:
    started = plant.worker()
    plant.wait(lambda: plant.exists("inputs"))
    yield started
    started.kill()


def publish_events(plant: AlarmPlant) -> None:
    invalid = Message("events", b"pump-1", b"no event", ())
    foreign = replace(samples().events[0], headers=_with_source(samples().events[0], b"/anchormoe-agent/other"))
    plant.send_events([*samples().events, *samples().events[:5], invalid])
    plant.send([replace(foreign, stream=f"{plant.name}-events")])


def _with_source(message: Message, source: bytes) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, source if name == "ce_source" else value) for name, value in message.headers)


def alerts(receiver: CheckingReceiver) -> list[dict[str, Any]]:
    return [alert for call in receiver.calls for alert in call]


def test_from_events_to_an_acknowledged_alarm(
    plant: AlarmPlant, worker: Worker, receivers: dict[str, CheckingReceiver]
) -> None:
    publish_events(plant)
    plant.wait(lambda: any(one["state"] == "unacknowledged" for one in plant.read("alarms")))
    url, users = plant.url(worker), plant.config.parent / "users.yaml"

    listed = plant.alarm("list", "--json")
    assert listed.returncode == 0, listed.stderr
    shown = [json.loads(line) for line in listed.stdout.splitlines()]
    waiting = [one["alarm"] for one in shown if one["state"] in ("unacknowledged", "returned")]
    assert len(waiting) >= 2

    ada, bob = add_user(users, "ada", "operate"), add_user(users, "bob", "engineer")
    assert "needs your token" in plant.alarm("ack", waiting[0], "--url", url).stderr
    by_command = plant.alarm("ack", waiting[0], "--why", "on my way", "--url", url, token=ada)
    assert by_command.stdout == f"{waiting[0]}: ack done by ada\n", by_command.stderr
    again = plant.alarm("ack", waiting[0], "--url", url, token=ada)
    assert again.returncode == 1
    above = plant.alarm("out-of-service", waiting[0], "--why", "mine", "--url", url, token=ada)
    assert (above.returncode, "this needs engineer" in above.stderr) == (1, True)
    assert "nothing to acknowledge" in again.stderr
    details = plant.alarm("show", waiting[0]).stdout
    assert "raised by: " in details
    assert re.search(r"[+-]\d\.\d\d \([pq]", details) or waiting[0].startswith("lost")  # evidence and its channels

    ack_path = f"{url}/alarms/{waiting[1].replace('#', '%23')}/ack"
    as_bob = {"Authorization": f"Bearer {bob}"}
    assert httpx.post(ack_path, json={"by": "bob"}).status_code == 401
    assert httpx.post(ack_path, json={}, headers=TOKEN).status_code == 403  # Prometheus' token is nobody's name
    assert httpx.post(ack_path, json={"by": "ada"}, headers=as_bob).status_code == 422
    assert httpx.post(f"{url}/alarms/odd:/ack", json={}, headers=as_bob).status_code == 404
    accepted = httpx.post(ack_path, json={"why": "me too"}, headers=as_bob)
    assert accepted.status_code == 202
    command = accepted.json()["command"]
    plant.wait(lambda: any(one["input"] == command for one in plant.read("audit")))
    [entry] = [one for one in plant.read("audit") if one["input"] == command]
    assert (entry["by"], entry["why"], entry["outcome"]) == ("bob", "me too", "done")

    page = httpx.get(f"{url}/metrics", headers=TOKEN).text
    assert 'anchormoe_alarms_announced_total{console="hall",priority="high"}' in page
    assert 'anchormoe_alarm_inputs_ignored_total{reason="not_an_event"} 1.0' in page
    assert 'anchormoe_alarm_inputs_ignored_total{reason="other_namespace"} 1.0' in page
    assert httpx.get(f"{url}/alarms", headers=TOKEN).json()
    assert httpx.get(f"{url}/readyz").status_code == 200

    _check_contracts(plant)
    _check_receivers(plant, receivers)
    today = datetime.now(UTC).date()
    report = plant.alarm("report", "--from", str(today - timedelta(days=1)), "--to", str(today + timedelta(days=9)))
    assert report.returncode == 0, report.stderr
    assert re.search(r"stale on the worst day \(over 24 h\) +0 ", report.stdout), report.stdout


def _check_contracts(plant: AlarmPlant) -> None:
    models: dict[str, type[BaseModel]] = {"transitions": AlarmTransition, "alarms": PresentAlarm, "audit": AuditRecord}
    for stream, model in models.items():
        documents = plant.read(stream)
        assert documents
        for one in documents:
            model.model_validate_json(json.dumps(one))
            jsonschema.validate(one, model.model_json_schema())


def _check_receivers(plant: AlarmPlant, receivers: dict[str, CheckingReceiver]) -> None:
    """Every alarm arrives, although the first request failed with 500 and the second one timed out."""
    raised = {one["alarm"] for one in plant.read("transitions") if one["change"] == "raised"}
    plant.wait(lambda: {one["labels"]["alarm"] for one in alerts(receivers["alertmanager"])} >= raised)
    generic = receivers["generic"]
    plant.wait(lambda: {one["alarm"] for call in generic.calls for one in call["alarms"]} >= raised)
    assert receivers["alertmanager"].errors == []
    assert generic.errors == []


def test_invalid_input_is_refused_in_the_audit_and_stops_nothing(plant: AlarmPlant, worker: Worker) -> None:
    bad = [None, b"", b"{", b"[]", b'{"kind": "command"}', b'{"kind": "tick", "time": "yesterday"}']
    plant.send(Message(plant.topics["inputs"], b"hall", value) for value in bad)
    plant.send([Message(plant.topics["inputs"], b"nowhere", b"{}"), Message(plant.topics["inputs"], None, b"{}")])
    plant.wait(lambda: len(plant.read("audit")) >= len(bad) + 2)
    assert {one["outcome"] for one in plant.read("audit")} == {"refused"}
    publish_events(plant)
    plant.wait(lambda: any(one["change"] == "raised" for one in plant.read("transitions")))
    assert worker.alive
