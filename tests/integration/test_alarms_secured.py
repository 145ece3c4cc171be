"""The alarm worker with TLS and a login on a real broker; a refused login is one line of error."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.alarms.core.inputs import Input
from tests.support.alarm_log import command, event
from tests.support.alarm_workers import AlarmPlant
from tests.support.services.kafka import KafkaBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]
PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    started = KafkaBroker({"ada": PASSWORD})
    try:
        started.start()
        yield started
    finally:
        started.close()


@pytest.fixture
def connections(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    monkeypatch.setenv("ALARM_PASSWORD", PASSWORD)
    authority, own = {"ca_file": str(broker.authority.certificate)}, broker.authority.issue("alarms")
    login = {"username": "ada", "password": {"env": "ALARM_PASSWORD"}}
    mutual = {"cert_file": str(own.certificate), "key_file": str(own.key)}
    return {
        mechanism: {
            "bootstrap": broker.sasl_tls_bootstrap,
            "security": {"protocol": "SASL_SSL", "sasl_mechanism": mechanism, **login, **authority},
        }
        for mechanism in ("PLAIN", "SCRAM-SHA-256")
    } | {"mtls": {"bootstrap": broker.mtls_bootstrap, "security": {"protocol": "SSL", **mutual, **authority}}}


@pytest.mark.parametrize("name", ["PLAIN", "SCRAM-SHA-256", "mtls"])
def test_inputs_become_alarms_behind_tls_and_a_login(
    broker: KafkaBroker, connections: dict[str, dict[str, Any]], tmp_path: Path, topic_name: str, name: str
) -> None:
    plant = AlarmPlant(broker.bootstrap, tmp_path, topic_name, connection=connections[name])
    worker = plant.worker()
    try:
        plant.wait(lambda: plant.exists("inputs"))
        asset = "pump-1-a"
        entries: list[Input] = [
            event(0, 0.9, asset=asset),
            event(5, 0.9, asset=asset),
            command(6, "ack", f"wear:{asset}"),
        ]
        plant.write(("hall-1", entry) for entry in entries)
        plant.wait(lambda: len(plant.read("transitions")) >= 2)
        assert [one["after"] for one in plant.read("transitions")] == ["unacknowledged", "acknowledged"]
        assert worker.stop() == 0, worker.text
        assert PASSWORD not in worker.text
    finally:
        worker.kill()


@pytest.mark.parametrize("name", ["PLAIN", "SCRAM-SHA-256"])
def test_a_worker_that_cannot_log_in_says_so_in_one_line_and_fails(
    broker: KafkaBroker,
    connections: dict[str, dict[str, Any]],
    tmp_path: Path,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.setenv("ALARM_PASSWORD", "wrong battery")
    plant = AlarmPlant(broker.bootstrap, tmp_path, topic_name, connection=connections[name])
    worker = plant.worker()
    plant.wait(lambda: not worker.alive)
    assert worker.stop() == 1
    [line] = worker.text.splitlines()
    assert line.startswith(f"error: Kafka at {broker.sasl_tls_bootstrap}: the login is refused: ")
    assert "wrong battery" not in line
