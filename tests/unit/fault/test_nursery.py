"""Agents that are forks: output, exit codes and signals are those of a process."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.nursery import Nursery


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


def test_a_fork_writes_to_its_log_and_gives_its_exit_code(nursery: Nursery, tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    good = nursery.launch(["--version"], log, os.environ)
    assert good.wait() == 0
    assert log.read_text().startswith("anchormoe-agent ")
    wrong = nursery.launch(["run", "--config", str(tmp_path / "missing.yaml")], log, os.environ)
    assert wrong.wait() == wrong.poll() == 2
    assert "missing.yaml" in log.read_text()


def test_a_fork_dies_of_a_signal(nursery: Nursery, tmp_path: Path) -> None:
    config = Path(__file__).parents[3] / "configs" / "demo.yaml"
    running = nursery.launch(["run", "--config", str(config)], tmp_path / "agent.log", os.environ)
    assert running.poll() is None
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
