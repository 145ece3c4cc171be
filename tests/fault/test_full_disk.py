"""A disk without room: the agent ends, half a line stays nowhere, and afterwards the events are those of a calm run."""

import asyncio
import resource
from contextlib import contextmanager

import pytest

from connectors.errors import ConnectorError
from connectors.jsonl import JsonlSink, read_messages
from connectors.memory import MemoryLog, MemorySink, MemoryWindowStore
from connectors.records import EVENTS
from tests.support.plant import A, B, events_of, pipeline_on, pumps, put


@contextmanager
def room_for(size):
    """No file of this process may grow beyond: a real error of the kernel, in the middle of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def filled():
    log = MemoryLog([A, B])
    for step in range(60):
        put(log, "p1", 100 + step, 1.0 if step % 9 < 5 else -1.0)
    return log


async def run(log, sink, store):
    await pipeline_on(log, sink, store, group=pumps(policy="all")).run(asyncio.Event())


async def test_a_full_disk_ends_the_agent_and_loses_nothing(tmp_path):
    log, store, calm = filled(), MemoryWindowStore(), MemorySink()
    with room_for(9_000), pytest.raises(ConnectorError, match="File too large"):
        await run(log, JsonlSink(tmp_path), store)
    assert log.commits.get(A).offset < 60
    content = (tmp_path / "events.jsonl").read_bytes()
    assert content
    assert content.endswith(b"\n")
    await run(log, JsonlSink(tmp_path), store)
    await run(filled(), calm, MemoryWindowStore())
    found = MemorySink()
    await found.start()
    await found.write([message for message in read_messages(tmp_path / "events.jsonl") if message.stream == EVENTS])
    assert events_of(found) == events_of(calm)
    assert len(events_of(calm)) > 20


async def test_the_sink_itself_goes_on_when_there_is_room_again(tmp_path):
    source = MemorySink()
    await run(filled(), source, MemoryWindowStore())
    sink = JsonlSink(tmp_path)
    await sink.start()
    with room_for(5_000), pytest.raises(ConnectorError):
        await sink.write(source.of(EVENTS))
    await sink.write(source.of(EVENTS))
    await sink.close()
    assert list(read_messages(tmp_path / "events.jsonl")) == source.of(EVENTS)
