"""What fault tests share: compiled kernels, and a busy plant of alarms with its workers."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.alarm_busy_day import FLOOD, RULES, Workers
from tests.support.alarm_workers import AlarmPlant
from tests.support.services.kafka import Broker

_BUNDLE = Path(__file__).parents[2] / "configs" / "bundles" / "pump"


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels() -> None:
    """In a fresh clone the first agent would compile the kernels while a test measures how fast it comes back."""
    command = [sys.executable, "-m", "agent.cli.main", "bundle", "verify", str(_BUNDLE)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)


@pytest.fixture
def plant(kafka: Broker, tmp_path: Path, topic_name: str) -> AlarmPlant:
    """With delays, suppression and floods; consoles on several partitions, a short session."""
    kafka.create_topic(f"{topic_name}-events", 3)
    return AlarmPlant(kafka.bootstrap, tmp_path, topic_name, rules=RULES, flood=FLOOD, session="6s")


@pytest.fixture
def workers(plant: AlarmPlant) -> Iterator[Workers]:
    started = Workers(plant)
    yield started
    started.end()
