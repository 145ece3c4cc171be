"""A full disk: the agent exits, no partial line is left; afterwards the events are those of a run without faults."""

import asyncio
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from connectors.base import Sink, WindowStore
from connectors.errors import ConnectorError
from connectors.jsonl import JsonlSink, read_messages
from connectors.memory import MemoryLog, MemorySink, MemoryWindowStore
from connectors.records import EVENTS
from tests.support.plant import A, B, events_of, pipeline_on, pumps, put


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file of this process may grow beyond it: a real error of the kernel, in the middle of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def filled() -> MemoryLog:
    log = MemoryLog([A, B])
    for step in range(60):
        put(log, "p1", 100 + step, 1.0 if step % 9 < 5 else -1.0)
    return log


async def run(log: MemoryLog, sink: Sink, store: WindowStore) -> None:
    await pipeline_on(log, sink, store, group=pumps(policy="all")).run(asyncio.Event())


async def test_a_full_disk_ends_the_agent_and_loses_nothing(tmp_path: Path) -> None:
    log, store, reference = filled(), MemoryWindowStore(), MemorySink()
    with file_size_limit(9_000), pytest.raises(ConnectorError, match="File too large"):
        await run(log, JsonlSink(tmp_path), store)
    committed = log.commits.get(A)
    assert committed is not None
    assert committed.offset < 60
    content = (tmp_path / "events.jsonl").read_bytes()
    assert content
    assert content.endswith(b"\n")
    await run(log, JsonlSink(tmp_path), store)
    await run(filled(), reference, MemoryWindowStore())
    found = MemorySink()
    await found.start()
    await found.write([message for message in read_messages(tmp_path / "events.jsonl") if message.stream == EVENTS])
    assert events_of(found) == events_of(reference)
    assert len(events_of(reference)) > 20


async def test_the_sink_goes_on_when_there_is_space_again(tmp_path: Path) -> None:
    source = MemorySink()
    await run(filled(), source, MemoryWindowStore())
    sink = JsonlSink(tmp_path)
    await sink.start()
    with file_size_limit(5_000), pytest.raises(ConnectorError):
        await sink.write(source.of(EVENTS))
    await sink.write(source.of(EVENTS))
    await sink.close()
    assert list(read_messages(tmp_path / "events.jsonl")) == source.of(EVENTS)
