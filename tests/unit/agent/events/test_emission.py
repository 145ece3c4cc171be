"""When a state is published: on change, always, or on change and at heartbeats of the grid."""

import asyncio
from dataclasses import replace

import orjson
import pytest

from agent.events.emission import Emission
from connectors.memory import MemoryLog, MemorySink, MemoryWindowStore
from connectors.records import EVENTS
from tests.support.plant import A, pipeline_on, pumps, put


async def seconds_published(emission: Emission, *, start: int) -> list[int]:
    """Flow is high until 112, then low; windows of four steps, every two steps."""
    log, sink = MemoryLog([A]), MemorySink()
    for second in range(start, 125):
        put(log, "p1", second, 1.0 if second < 112 else -1.0)
    group = pumps()
    group = replace(group, publishing=replace(group.publishing, emission=emission))
    await pipeline_on(log, sink, MemoryWindowStore(), group=group).run(asyncio.Event())
    ends = [orjson.loads(message.value or b"")["window"]["end"] for message in sink.of(EVENTS)]
    return [60 * int(end[14:16]) + int(end[17:19]) for end in ends]


@pytest.mark.parametrize(
    ("emission", "expected"),
    [
        (Emission("changes"), [102, 114]),
        (Emission("all"), list(range(102, 124, 2))),
        (Emission("changes+heartbeat", 8), [102, 104, 112, 114, 120]),
    ],
)
async def test_each_policy_publishes_what_it_says(emission: Emission, expected: list[int]) -> None:
    assert await seconds_published(emission, start=100) == expected


async def test_heartbeats_are_on_the_grid_whenever_the_agent_starts() -> None:
    beats = [await seconds_published(Emission("changes+heartbeat", 8), start=start) for start in (97, 100, 101)]
    assert [[second for second in one if second >= 104] for one in beats] == [[104, 112, 114, 120]] * 3
