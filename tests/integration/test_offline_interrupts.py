"""Ctrl-C while an offline command is at work: an orderly end, an honest exit code, no traceback."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from connectors.files.rows import to_log_line
from tests.support.offline_plant import records, write_plant

PROGRAM = """
import os, sys, time
from agent import app
from tests.support.offline_plant import load_rule

class Slow(type(load_rule(None))):
    def predict(self, windows, mask):
        print("judging", flush=True)
        time.sleep(float(os.environ["JUDGING_S"]))
        return super().predict(windows, mask)

app.model_loader = lambda settings: lambda directory: Slow()
from agent.cli.main import main
sys.argv = ["anchormoe-agent", *sys.argv[1:]]
main()
"""


def started(*arguments: object, judging_s: float = 0.3) -> "subprocess.Popen[str]":
    command, environ = [sys.executable, "-c", PROGRAM, *map(str, arguments)], os.environ | {"JUDGING_S": str(judging_s)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)


def interrupted(process: "subprocess.Popen[str]", *, times: int = 1) -> tuple[int, str]:
    process.send_signal(signal.SIGINT)
    for _ in range(times - 1):
        time.sleep(1)  # two that wait for a busy process are one
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


@pytest.mark.parametrize("times", [1, 2])
def test_a_replay_that_is_interrupted_writes_nothing_and_says_so(tmp_path: Path, times: int) -> None:
    limits = {"max_batch_records": 10}
    plant, out = write_plant(tmp_path, limits=limits), tmp_path / "replayed"
    (tmp_path / "r.jsonl").write_bytes(b"".join(map(to_log_line, records(1000))))
    judging_s = 0.3 if times == 1 else 4  # the second signal has to come before it is done
    process = started("replay", "-c", plant, "-i", tmp_path / "r.jsonl", "--out", out, judging_s=judging_s)
    assert process.stdout is not None
    assert process.stdout.readline() == "judging\n"
    code, said = interrupted(process, times=times)
    assert (code, "Traceback" in said, out.exists()) == (1, False, False)
    assert said.startswith("error: stopped after" if times == 1 else "error: cancelled by a second signal")


@pytest.mark.parametrize("rate", [(), ("--rate", 20)])
def test_a_stream_without_an_end_that_is_interrupted_leaves_whole_records_and_their_true_states(
    tmp_path: Path, rate: tuple[object, ...]
) -> None:
    plant, to, truth = write_plant(tmp_path), tmp_path / "s.jsonl", tmp_path / "truth.jsonl"
    stream = ("simulate", "stream", "-c", plant, "--asset", "pump-1=pump", "--to", to, "--truth", truth)
    process = started(*stream, *rate)
    while not (to.exists() and to.stat().st_size):
        assert process.poll() is None
        time.sleep(0.05)
    code, said = interrupted(process)
    assert (code, "Traceback" in said) == (0, False)
    assert to.read_bytes().endswith(b"}\n")
    assert truth.read_text().startswith('{"asset":"pump-1","state":"normal","start":"2026-01-01T00:00:00Z"')
