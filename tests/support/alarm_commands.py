"""`anchormoe-agent alarm …` as a person types it."""

import subprocess
import sys

from tests.support.alarm_workers import AlarmPlant


def told(plant: AlarmPlant, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from agent.cli.main import main; main()", "alarm", *arguments]
    return subprocess.run([*program, "--config", str(plant.config)], capture_output=True, text=True, timeout=120)
