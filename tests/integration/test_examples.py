"""The examples run as they stand."""

import asyncio
import subprocess
import sys
from pathlib import Path

import orjson

from tests.agent_process import read_topic

EXAMPLES = Path(__file__).parents[2] / "examples"


async def test_a_recording_becomes_keyed_records_that_end_now(kafka, topic_name, tmp_path):
    kafka.create_topic(topic_name, 1)
    recording = tmp_path / "loop.csv"
    recording.write_text("datetime;flow;note\n2020-03-09 10:14:33;1.5;\n2020-03-09 10:14:34;2.5;7\n")
    command = [sys.executable, str(EXAMPLES / "recording_to_kafka.py"), str(recording), "--topic", topic_name]
    options = ["--asset", "loop-1", "--time", "datetime", "--separator", ";", "--bootstrap", kafka.bootstrap]
    done = await asyncio.to_thread(subprocess.run, [*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = await read_topic(kafka.bootstrap, topic_name)
    assert (first.key, orjson.loads(first.value)["flow"]) == (b"loop-1", 1.5)
    assert orjson.loads(second.value)["note"] == 7.0
    assert second.timestamp - first.timestamp == 1000
    assert orjson.loads(second.value)["ts"] == second.timestamp
