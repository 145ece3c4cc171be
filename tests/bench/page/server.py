"""The page with ten thousand assets, in a process of its own; answers questions about itself on its standard input.

`python -m tests.bench.page.server --assets 10000 --events 0` prints its address. A line `gauges` is answered by a line
of JSON: processor seconds, memory, 99th percentile of the event loop's delay since the last question.
"""

import argparse
import asyncio
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

from agent.page.signals import GroupFacts
from agent.page.state import PageState, WindowFacts
from agent.page.traces import Recent
from agent.settings import ResolvedChannel
from anchormoe.windows import FillRule, Grid, WindowShape
from tests.support.big_fleet import GROUPS, big_state, changing, with_history
from tests.support.event_samples import samples
from tests.support.page_plant import PageServer, serving_page

PROBE, FAST = "probe-asset", "fast-asset"
_TICK_S = 0.005
_CHANNELS, _HZ = 8, 100


def fast_group(name: str) -> GroupFacts:
    """Eight channels at 100 Hz."""
    names = [f"c{number}" for number in range(_CHANNELS)]
    channels = tuple(
        ResolvedChannel(one, "bar", one, 1.0, 0.0, None, FillRule("hold", 3), "a fast channel") for one in names
    )
    grid, shape = Grid(10**9 // _HZ), WindowShape(400, 50, lateness=4)
    return GroupFacts(name, ("normal", "worn"), channels, ("bar",) * _CHANNELS, grid, shape, None)


def fast_samples(asset: str) -> Recent | None:
    if asset != FAST:
        return None
    end = int(time.time() * _HZ)
    steps = np.arange(end - 404, end)
    values = np.stack([np.sin(steps / (9 + channel)) * 9.876 for channel in range(_CHANNELS)])
    return Recent(GROUPS[0], end, values.astype(np.float32))


def make_state(assets: int, events: int) -> PageState:
    state = big_state(assets)
    if events:
        with_history(state, events)
    fast = fast_group(GROUPS[0])
    state.groups[GROUPS[0]] = fast
    now_ms = int(time.time() * 1000)
    for name in (PROBE, FAST):
        state.add_window(WindowFacts(name, GROUPS[0], "worn", now_ms, now_ms, 0.9, "new"))
    state.recent = fast_samples
    state.fleet.advance()
    return state


PROGRAM_MB = 0.0


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


class Gauges:
    def __init__(self) -> None:
        self._late_s: list[float] = []

    async def run(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(_TICK_S)
            self._late_s.append(time.perf_counter() - before - _TICK_S)

    def read(self) -> dict[str, float]:
        late, self._late_s = sorted(self._late_s), []
        return {
            "cpu_s": time.process_time(),
            "at_s": time.monotonic(),
            "rss_mb": _resident_mb(),
            "program_mb": PROGRAM_MB,
            "late_p99_s": late[int(len(late) * 0.99)] if late else 0.0,
        }


async def probe(state: PageState) -> None:
    """A change whose reason is the moment at which it was made; the page says when it was seen."""
    while True:
        await asyncio.sleep(0.73)
        now_ms = time.time_ns() // 1_000_000
        state.add_window(WindowFacts(PROBE, GROUPS[0], "worn", now_ms, now_ms, 0.9, f"t={now_ms}"))


async def answer(server: PageServer, gauges: Gauges) -> None:
    """Until `stop`: how long stopping took is the last answer."""
    loop = asyncio.get_running_loop()
    while (line := (await loop.run_in_executor(None, sys.stdin.readline)).strip()) != "stop" and line:
        print(json.dumps(gauges.read()), flush=True)
    assert server.stop is not None
    print(json.dumps({"clients": len(server.hub), "stop_s": await server.stop()}), flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--assets", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=0)
    wanted = parser.parse_args()
    samples()  # what the test needs to make events is not the page's
    global PROGRAM_MB  # noted once, before there is a fleet
    PROGRAM_MB = _resident_mb()
    state, gauges = make_state(wanted.assets, wanted.events), Gauges()
    async with serving_page(state, limits=None) as server, changing(state):
        print(server.url, flush=True)
        tasks = [asyncio.create_task(gauges.run()), asyncio.create_task(probe(state))]
        await answer(server, gauges)
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
