"""A file system that does not answer: the agent still ends after SIGTERM, in time and with a loud line."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.offline_plant import write_plant

PROGRAM = """
import sys
from agent import app
from agent.cli import run
from tests.support.offline_plant import load_rule

app.model_loader = app.fresh_loader = lambda settings: load_rule
run._CLOSING_S = 1.0
from agent.cli.main import main
sys.argv = ["anchormoe-agent", *sys.argv[1:]]
main()
"""


def open_when_read(pipe: Path) -> int:
    """The writing end, as soon as somebody has the reading end open; whoever reads it then waits for ever."""
    deadline_s = time.monotonic() + 60
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO or time.monotonic() > deadline_s:
                raise
            time.sleep(0.02)


def test_activations_on_a_file_system_that_hangs_do_not_keep_the_agent(tmp_path: Path) -> None:
    pipe = tmp_path / "activations.jsonl"
    os.mkfifo(pipe)
    (tmp_path / "data.jsonl").write_bytes(b'{"ts": 1, "asset": "pump-1", "flow": 1.0, "pressure": 1.0}\n')
    plant = write_plant(
        tmp_path,
        source={"kind": "file", "paths": [str(tmp_path / "data.jsonl")], "format": "jsonl"},
        models={"directory": str(tmp_path), "activations": str(pipe)},
        checkpoint={"stop_deadline": "1s"},
    )
    command = [sys.executable, "-c", PROGRAM, "run", "--config", str(plant)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as agent:
        try:
            hanging = open_when_read(pipe)
            agent.send_signal(signal.SIGTERM)
            _, said = agent.communicate(timeout=60)
            os.close(hanging)
        finally:
            agent.kill()
    assert agent.returncode == 1
    assert "error: shutdown took longer than 2 s; the process ends now" in said
    assert "Traceback" not in said
