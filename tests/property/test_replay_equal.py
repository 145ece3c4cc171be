"""After any number of crashes, the de-duplicated events are byte-equal to those of one undisturbed run over the log."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.events.group import GroupRuntime
from agent.runtime.pipeline import PipelineLimits
from anchormoe.windows import WindowShape
from connectors.errors import ConnectorError
from connectors.memory import MemoryLog, MemorySink, MemorySource, MemoryWindowStore
from tests.support.plant import A, B, events_of, pipeline_on, pumps, put, strict_judge

Entry = tuple[str, int, float | None]
"""Asset, second and flow."""
PlannedCrash = tuple[str, int, bool, str]
"""The part that crashes, at which call, whether after it, and what becomes of the store."""


ODD_FLOWS = (1.0, -1.0, 0.5, None, -9999.0, 3.0, 60.0)


class Crash(Exception):
    """The process is gone."""


class Crashing:
    """Passes calls on to `part`; the n-th one fails, before or after it has taken effect."""

    def __init__(self, part: MemorySink | MemoryWindowStore | MemorySource, calls: int, *, after: bool) -> None:
        self._part, self._left, self._after = part, calls, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if name not in ("write", "save", "commit", "verify"):
            return found

        async def call(*arguments: object) -> object:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Crash
            answer = await found(*arguments)
            if self._left == 0:
                raise Crash
            return answer

        return call


@st.composite
def logs(draw: st.DrawFn, flows: Sequence[float | None] = (1.0, -1.0, None)) -> list[Entry]:
    steps = st.tuples(st.sampled_from(["p1", "p2", "p3"]), st.integers(-3, 6), st.sampled_from(flows))
    at = {"p1": 100, "p2": 100, "p3": 500}
    entries = []
    for asset, step, flow in draw(st.lists(steps, min_size=10, max_size=60)):
        at[asset] += step
        entries.append((asset, at[asset], flow))
    return entries


def written(entries: list[Entry]) -> MemoryLog:
    log = MemoryLog([A, B])
    for asset, second, flow in entries:
        put(log, asset, second, flow, partition=B if asset == "p3" else A)
    return log


crashes = st.lists(
    st.tuples(
        st.sampled_from(["sink", "store", "source"]),
        st.integers(1, 12),
        st.booleans(),
        st.sampled_from(["keep", "flush"]),
    ),
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(logs(), crashes, st.integers(1, 9), st.integers(1, 20))
def test_crashes_anywhere_lose_nothing_and_invent_nothing(
    entries: list[Entry], planned: list[PlannedCrash], records_per_poll: int, checkpoint_records: int
) -> None:
    assert asyncio.run(disturbed(entries, planned, records_per_poll, checkpoint_records)) == asyncio.run(
        undisturbed(entries)
    )


@settings(max_examples=40, deadline=None)
@given(logs(flows=ODD_FLOWS), crashes, st.integers(1, 9), st.integers(1, 20))
def test_crashes_anywhere_change_no_event_about_a_sensor(
    entries: list[Entry], planned: list[PlannedCrash], records_per_poll: int, checkpoint_records: int
) -> None:
    after = asyncio.run(disturbed(entries, planned, records_per_poll, checkpoint_records, judging))
    assert after == asyncio.run(undisturbed(entries, judging))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["=", "+", "-", "0", "?"]), min_size=40, max_size=160), crashes, st.integers(5, 30))
def test_crashes_anywhere_change_no_state_that_hysteresis_holds(
    flows: list[str], planned: list[PlannedCrash], checkpoint_records: int
) -> None:
    """Long enough that a rebuild does not reach back to the beginning."""
    value = {"+": 1.0, "-": -1.0, "0": 0.05, "?": None}
    sent = [flows[max(at - 3, 0)] if flow == "=" else flow for at, flow in enumerate(flows)]
    entries = [("p1", 100 + at, value.get(flow, 0.5)) for at, flow in enumerate(sent)]
    after = asyncio.run(disturbed(entries, planned, 7, checkpoint_records, holding))
    assert after == asyncio.run(undisturbed(entries, holding))


@settings(max_examples=60, deadline=None)
@given(logs(flows=ODD_FLOWS))
def test_a_sensor_becomes_unhealthy_and_healthy_in_turn(entries: list[Entry]) -> None:
    """Where a window has no predecessor everything begins anew, as the asset's state does."""
    unhealthy: set[tuple[str, str, str]] = set()
    events = [orjson.loads(value) for value in asyncio.run(undisturbed(entries, judging)).values()]
    first = {(one["asset"], one["window"]["end"]) for one in events if one.get("previous_state", "") is None}
    for event in events:
        place = (event["asset"], event.get("window", {}).get("end"))
        if place in first:
            unhealthy = {key for key in unhealthy if key[0] != event["asset"]}
            first.discard(place)
        if event["type"] not in ("sensor_unhealthy", "sensor_healthy"):
            continue
        key = (event["asset"], event["channel"], event["finding"])
        assert (key in unhealthy) == (event["type"] == "sensor_healthy")
        unhealthy ^= {key}


def quiet() -> GroupRuntime:
    return pumps(policy="all")


def holding() -> GroupRuntime:
    """A memory of 32 windows of one step each."""
    return pumps(policy="all", judge=strict_judge(), shape=WindowShape(length=4, hop=1), hysteresis_milli=4000)


def judging() -> GroupRuntime:
    return pumps(policy="all", judge=strict_judge())


async def undisturbed(entries: list[Entry], group: Callable[[], GroupRuntime] = quiet) -> dict[str, bytes]:
    sink = MemorySink()
    await pipeline_on(written(entries), sink, MemoryWindowStore(), group=group()).run(asyncio.Event())
    return events_of(sink)


async def disturbed(
    entries: list[Entry],
    planned: list[PlannedCrash],
    records_per_poll: int,
    checkpoint_records: int,
    group: Callable[[], GroupRuntime] = quiet,
) -> dict[str, bytes]:
    log, sink, store = written(entries), MemorySink(), MemoryWindowStore()
    limits = PipelineLimits(max_records=records_per_poll, checkpoint_records=checkpoint_records, poll_timeout_s=0.01)
    for where, calls, after, memory in planned:
        parts: dict[str, Any] = {"sink": sink, "store": store, "source": MemorySource(log, bounded=True)}
        parts[where] = Crashing(parts[where], calls, after=after)
        pipeline = pipeline_on(log, group=group(), limits=limits, **parts)
        with contextlib.suppress(Crash, ConnectorError):
            await pipeline.run(asyncio.Event())
        if memory == "flush":
            store.flush()
    await pipeline_on(log, sink, store, group=group(), limits=limits).run(asyncio.Event())
    return events_of(sink)
