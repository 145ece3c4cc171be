"""What every fault test needs before the first agent is hurt."""

import subprocess
import sys
from pathlib import Path

import pytest

_BUNDLE = Path(__file__).parents[2] / "configs" / "bundles" / "pump"


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels() -> None:
    """In a fresh clone the first agent would compile the kernels while a test measures how fast it comes back."""
    command = [sys.executable, "-m", "agent.cli.main", "bundle", "verify", str(_BUNDLE)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
