"""Every metric and label that dashboards and alert rules name is told by a running agent and a running alarm worker."""

import asyncio
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.alarms.core.inputs import Input
from tests.conftest import RedisFactory
from tests.integration.test_health_live import Agent, Closing, bundle, closing, produce, wait_for
from tests.support.alarm_log import command, event
from tests.support.alarm_workers import AlarmPlant
from tests.support.dashboards import OF_PROMETHEUS, expressions, rule_expressions, uses
from tests.support.services.kafka import Broker
from tests.support.services.ports import free_port

__all__ = ["bundle", "closing"]


_SUFFIXES = {
    "counter": ["_total"],
    "gauge": [""],
    "summary": ["_sum", "_count"],
    "histogram": ["_bucket", "_sum", "_count"],
}


def told(text: str) -> dict[str, set[str]]:
    """The labels of every metric; none where it has no sample yet."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for suffix in _SUFFIXES[family.type]:
            found.setdefault(f"{family.name}{suffix}", set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def complaints(asked: list[str], found: dict[str, set[str]]) -> list[str]:
    """Labels of a metric without samples cannot be checked."""
    return [
        f"{name} {sorted(labels)}: {sorted(found.get(name, {'no such metric'}))}"
        for expression in asked
        for name, labels in uses(expression)
        if name not in OF_PROMETHEUS
        if name not in found or (found[name] and not labels <= found[name])
    ]


def without_samples(asked: list[str], found: dict[str, set[str]]) -> set[str]:
    """Metrics whose labels are asked for but could not be seen."""
    return {name for expression in asked for name, labels in uses(expression) if labels and found.get(name) == set()}


RARE = {"anchormoe_sensor_faults_total", "anchormoe_ignored_total"}
"""Labels of these appear with a broken sensor or with settings that ignore records; unit tests have their labels."""


@pytest.mark.slow
def test_the_agent_tells_what_dashboard_and_rules_ask_for(
    kafka: Broker, redis_factory: RedisFactory, topic_name: str, bundle: Path, closing: Closing
) -> None:
    kafka.create_topic(topic_name, 1)
    redis = redis_factory("redis")
    agent = closing(Agent(bundle, bootstrap=kafka.bootstrap, topic=topic_name, redis=redis.url, port=0))
    agent.launch()
    agent.process.wait_until(lambda: agent.url is not None, 180)
    asyncio.run(produce(kafka.bootstrap, topic_name, range(200)))
    wait_for(lambda: told(agent.answer("/metrics").text).get("anchormoe_assets", set()) == {"group", "state"})
    wait_for(lambda: "anchormoe_commit_age_seconds " in agent.answer("/metrics").text)
    asked = expressions("agent") + rule_expressions("anchormoe-agent")
    wait_for(lambda: without_samples(asked, told(agent.answer("/metrics").text)) <= RARE)
    found = told(agent.answer("/metrics").text)
    assert complaints(asked, found) == []
    assert complaints(["sum by (asset) (anchormoe_assets)", "anchormoe_nothing"], found) != []
    assert {"group", "name", "version", "digest"} == found["anchormoe_model_info"]
    assert found["anchormoe_windows_judged_total"] == {"group", "outcome"}


@pytest.mark.slow
def test_the_alarm_worker_tells_what_dashboard_and_rules_ask_for(
    kafka: Broker, topic_name: str, tmp_path: Path
) -> None:
    """An alarm that is raised, acknowledged and gone again, for a receiver that is not there; one input for nothing."""
    kafka.create_topic(f"{topic_name}-events", 1)
    nobody = {"name": "pager", "url": f"http://127.0.0.1:{free_port()}/"}
    plant = AlarmPlant(kafka.bootstrap, tmp_path, topic_name, http={"port": 0}, webhooks=[nobody])
    worker = plant.worker()
    asset = "pump-1-a"
    inputs: list[Input] = [event(0, 0.9, asset=asset), event(5, 0.9, asset=asset), command(6, "ack", f"wear:{asset}")]
    asked = expressions("alarms") + rule_expressions("anchormoe-alarms")
    try:
        metrics = f"{plant.url(worker)}/metrics"
        plant.wait(lambda: plant.exists("inputs"))
        plant.write(("hall-1", entry) for entry in [*inputs, event(9, 0.1, asset=asset), event(1, 0.1, asset=asset)])

        def seen() -> dict[str, set[str]]:
            return told(httpx.get(metrics, trust_env=False, timeout=60).text)

        wait_for(lambda: without_samples(asked, seen()) == set())
        assert complaints(asked, seen()) == []
    finally:
        worker.stop()
