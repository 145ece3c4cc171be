"""Which assets expire depends on the log alone: however it is cut and taken over, the events are the same."""

import asyncio

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.runtime.pipeline import PipelineLimits
from connectors.memory import MemoryLog, MemorySink, MemoryWindowStore
from connectors.records import DEAD_LETTERS, EVENTS
from tests.support.plant import A, pipeline_on, pumps, put

AFTER, ROOM = 30, 3
Entry = tuple[str, int, float]
"""Asset, second and flow."""
Published = tuple[set[tuple[bytes, bytes | None]], list[tuple[bytes | None, bytes | None]]]
"""Ids and values of the events, and keys and values of the dead letters."""


@st.composite
def logs(draw: st.DrawFn) -> list[Entry]:
    """A few assets, more than there is room for, that come and go; one has a clock of its own, far behind."""
    steps = st.tuples(st.sampled_from("abcde"), st.integers(-2, 6) | st.integers(8, 40), st.sampled_from([1.0, -1.0]))
    at = {"a": 500, "b": 500, "c": 480, "d": 520, "e": 100}
    entries = []
    for asset, step, flow in draw(st.lists(steps, min_size=5, max_size=60)):
        at[asset] += step
        entries.append((asset, at[asset], flow))
    return entries


@settings(max_examples=150, deadline=None)
@given(
    logs(), st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 30), st.sampled_from([None, 3, 12, 25])
)
@example(
    [("a", 500, 1.0), ("a", 500, 1.0), ("b", 500, 1.0), ("a", 498, 1.0), ("c", 480, 1.0), ("d", 520, 1.0)], [3], 1, None
)
def test_any_cutting_and_any_take_over_expires_the_same_assets(
    entries: list[Entry], cuts: list[int], checkpoint_records: int, max_advance: int | None
) -> None:
    once = asyncio.run(one_by_one(entries, max_advance))
    assert asyncio.run(cut_up(entries, cuts, checkpoint_records, max_advance)) == once


async def one_by_one(entries: list[Entry], max_advance: int | None) -> Published:
    """Batches of one record, so that every decision is taken exactly where the log stands."""
    limits = PipelineLimits(max_records=1, checkpoint_records=1 << 40, checkpoint_every_s=1e9)
    return await published(entries, [limits], max_advance)


async def cut_up(entries: list[Entry], cuts: list[int], checkpoint_records: int, max_advance: int | None) -> Published:
    """Several owners after each other, with batches of different sizes; all but the last one stop on the way."""
    owners = [PipelineLimits(max_records=cut, checkpoint_records=checkpoint_records) for cut in cuts]
    return await published(entries, owners, max_advance)


async def published(entries: list[Entry], owners: list[PipelineLimits], max_advance: int | None) -> Published:
    log, sink, store = MemoryLog([A]), MemorySink(), MemoryWindowStore()
    group = pumps(policy="all", max_assets=ROOM, expire_after_steps=AFTER, max_advance_steps=max_advance)
    share = -(-len(entries) // len(owners))
    for turn, limits in enumerate(owners):
        for asset, second, flow in entries[turn * share : (turn + 1) * share]:
            put(log, asset, second, flow)
        await pipeline_on(log, sink, store, group=group, limits=limits).run(asyncio.Event())
    refused = [(message.key, message.value) for message in sink.of(DEAD_LETTERS)]
    # An asset that expires and comes back in its own past publishes a window again, with what it knows by then.
    return {(dict(message.headers)["ce_id"], message.value) for message in sink.of(EVENTS)}, refused
