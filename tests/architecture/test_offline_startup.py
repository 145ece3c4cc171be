"""Looking at dead letters and windows, and simulating, need no model: torch stays out."""

from pathlib import Path

import pytest

from tests.architecture.test_cli_startup import imported_by
from tests.support.offline_plant import write_plant


@pytest.mark.parametrize("command", ["replay", "windows", "dead-letters", "simulate"])
def test_asking_for_help_is_light(command: str) -> None:
    assert imported_by(command, "--help") & {"torch", "aiokafka", "redis", "numba", "pandas", "pyarrow"} == set()


def test_simulating_and_reading_dead_letters_bring_no_torch(tmp_path: Path) -> None:
    plant = str(write_plant(tmp_path))
    stream = (
        "simulate",
        "stream",
        "-c",
        plant,
        "--asset",
        "pump-1=pump",
        "--to",
        str(tmp_path / "s.jsonl"),
        "--for",
        "1s",
    )
    assert "torch" not in imported_by(*stream)
    assert "torch" not in imported_by("dead-letters", "list", "-c", plant)


def test_the_modules_behind_windows_bring_no_torch() -> None:
    import subprocess
    import sys

    modules = "agent.app, agent.windows.inspect, connectors.redis.window_reader"
    program = f"import sys, {modules}; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
