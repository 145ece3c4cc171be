"""What the chaos tool reads from the logs of agents: event codes, which are stable, never the words beside them."""

import asyncio
import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent import logs
from agent.chaos.agents import AgentProcess, ChaosError, events_with_code, wait_until
from connectors.base import Fenced
from connectors.memory import MemoryLog, MemorySink, MemoryWindowStore
from tests.support.plant import A, B, pipeline_on, put


def line(**fields: object) -> str:
    return json.dumps({"event": "some words", "level": "info"} | fields) + "\n"


def agent(tmp_path: Path, *lines: str) -> AgentProcess:
    (tmp_path / "agent.log").write_text("".join(lines))
    return AgentProcess("agent-1", tmp_path / "plant.yaml", tmp_path / "agent.log")


def test_the_codes_are_a_contract() -> None:
    assert (logs.EVENT_CODE, logs.PARTITION_TAKEN, logs.WRITE_REFUSED) == (
        "event_code",
        "partition_taken",
        "write_refused",
    )


async def test_an_agent_logs_the_codes_when_it_takes_a_partition_and_when_it_was_replaced() -> None:
    store, log = MemoryWindowStore(), MemoryLog([A, B])
    for step in range(5):
        put(log, "p1", 100 + step, 1.0)
    with capture_logs() as logged:
        running = asyncio.create_task(pipeline_on(log, MemorySink(), store, bounded=False).run(asyncio.Event()))
        await asyncio.sleep(0.05)
        await store.claim(A)
        for step in range(5, 12):
            put(log, "p1", 100 + step, -1.0)
        with pytest.raises(Fenced):
            await running
    codes = [entry["event_code"] for entry in logged if "event_code" in entry]
    assert set(codes[:2]) == {logs.PARTITION_TAKEN}
    assert codes[2:] == [logs.WRITE_REFUSED]
    [refused] = [entry for entry in logged if entry.get("event_code") == logs.WRITE_REFUSED]
    assert (refused["partition"], refused["reason"]) == (str(A), f"{A} has another owner")


def test_partitions_and_refusals_are_read_by_code_whatever_the_words_are(tmp_path: Path) -> None:
    taken, refused = line(event_code="partition_taken"), line(event_code="write_refused", reason="another owner")
    one = agent(tmp_path, taken, "partition taken\n", "error: commit refused\n", taken, refused, '{"event_code": "part')
    assert one.partitions_taken == 2
    assert one.refusal(0) == "another owner"
    assert one.refusal(len(one.read_log()) - 3) is None
    assert [event["event"] for event in events_with_code(one.read_log(), "write_refused")] == ["some words"]


def test_an_agent_without_a_log_has_taken_nothing(tmp_path: Path) -> None:
    one = AgentProcess("agent-1", tmp_path / "plant.yaml", tmp_path / "none.log")
    assert (one.partitions_taken, one.refusal(0), one.has_partition) == (0, None, False)


async def test_waiting_ends_with_the_time() -> None:
    assert await wait_until(lambda: True, 0.0)
    assert not await wait_until(lambda: False, 0.0)


async def test_an_agent_that_ignores_sigterm_is_killed_and_its_log_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubborn = tmp_path / "agent"
    stubborn.write_text("#!/bin/sh\ntrap '' TERM\necho stubborn\nsleep 60\n")
    stubborn.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(stubborn))
    one = AgentProcess("agent-1", tmp_path / "plant.yaml", tmp_path / "agent.log")
    one.start()
    assert await wait_until(lambda: b"stubborn" in one.read_log(), 120)
    with pytest.raises(ChaosError, match=r"agent-1 did not exit within 0\.2 s of SIGTERM:\nstubborn"):
        await one.terminate(0.2)
    assert not one.running
