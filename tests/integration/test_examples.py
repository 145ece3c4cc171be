"""The examples run as they stand."""

import asyncio
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import orjson

from connectors.simulator.plants import KINDS
from tests.support.agent_process import read_topic
from tests.support.services.kafka import Broker

EXAMPLES = Path(__file__).parents[2] / "examples"


async def send(kafka: Broker, topic: str, recording: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / "recording_to_kafka.py"), str(recording), "--topic", topic, *options]
    where = ["--asset", "loop-1", "--bootstrap", kafka.bootstrap]
    return await asyncio.to_thread(subprocess.run, [*command, *where], capture_output=True, text=True, check=False)


async def test_a_recording_becomes_keyed_records_that_end_now(kafka: Broker, topic_name: str, tmp_path: Path) -> None:
    kafka.create_topic(topic_name, 1)
    recording = tmp_path / "loop.csv"
    recording.write_text("datetime;flow;note\n2020-03-09 10:14:33;1.5;\n2020-03-09 10:14:34;2.5;7\n")
    done = await send(kafka, topic_name, recording, "--time", "datetime", "--separator", ";")
    assert done.returncode == 0, done.stderr
    first, second = await read_topic(kafka.bootstrap, topic_name)
    assert (first.key, orjson.loads(first.value)["flow"]) == (b"loop-1", 1.5)
    assert orjson.loads(second.value)["note"] == 7.0
    assert second.timestamp - first.timestamp == 1000
    assert orjson.loads(second.value)["ts"] == second.timestamp


async def test_a_simulated_recording_is_sent_without_its_labels(kafka: Broker, topic_name: str, tmp_path: Path) -> None:
    kafka.create_topic(topic_name, 1)
    simulate = [sys.executable, "-m", "agent.cli.main", "simulate", "recordings", "pump", "--out", str(tmp_path)]
    await asyncio.to_thread(subprocess.run, [*simulate, "--count", "1", "--samples", "3"], check=True)
    done = await send(kafka, topic_name, tmp_path / "pump-000.csv")
    assert done.returncode == 0, done.stderr
    records = await read_topic(kafka.bootstrap, topic_name)
    assert orjson.loads(records[0].value).keys() == {"ts", *KINDS["pump"].channels}
    assert [later.timestamp - earlier.timestamp for earlier, later in pairwise(records)] == [100, 100]


async def test_a_wrong_column_is_named(kafka: Broker, topic_name: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("time,flow\n1,2\n")
    done = await send(kafka, topic_name, tmp_path / "x.csv")
    assert (done.returncode, done.stderr) == (1, f"{tmp_path / 'x.csv'}: no column 'ts'; there are time, flow\n")
