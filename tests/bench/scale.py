"""Scale out: one, two and four agents on this machine, and what their costs mean for 100,000 and 1,000,000 assets.

`python -m tests.bench.scale --out docs/scale.md` measures and writes the page. The calculation is that of
`agent.planning`; what it assumes is on the page.
"""

import argparse
import asyncio
import os
import platform
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from agent.planning.formulas import Capacity, Costs, Figure, Load, Terms, plan, ring_slots
from tests.bench.stream.agents import Run, run_agents, settled, started
from tests.bench.stream.pumps import pump_rows, write_rows
from tests.bench.stream.world import World

_AGENTS = (1, 2, 4)
_ASSETS, _PARTITIONS, _SAMPLES = 64, 4, 1_000
_USUAL_ASSETS, _USUAL_SAMPLES, _USUAL_HOP = 256, 600, 16
_REDIS_BYTES_PER_S = 100e6
_SESSION_S = 15.0


class UsualCosts(NamedTuple):
    """Of an agent that publishes changes: processor seconds per record, and bytes of a record, an event, an agent."""

    record_s: float
    record_bytes: float
    resident: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, default=Path("configs/bundles/pump"))
    parser.add_argument("--out", type=Path, help="the page to write")
    given = parser.parse_args()
    with World() as world:
        runs = _runs(world, given.bundle)
        usual = _usual(world, given.bundle)
    page = "\n".join(_page(runs, usual))
    print(page)
    if given.out:
        given.out.write_text(page)


def _runs(world: World, bundle: Path) -> dict[int, Run]:
    rows = pump_rows(_ASSETS, _SAMPLES, partitions=_PARTITIONS)
    return {agents: run_agents(world, rows, agents=agents, bundle=bundle) for agents in _AGENTS}


def _usual(world: World, bundle: Path) -> UsualCosts:
    rows = pump_rows(_USUAL_ASSETS, _USUAL_SAMPLES, partitions=_PARTITIONS)
    records, size = sum(map(len, rows)), sum(len(value) for part in rows for _, value, _ in part)
    with tempfile.TemporaryDirectory() as directory, started(
        world, Path(directory), agents=1, partitions=_PARTITIONS, bundle=bundle, hop=_USUAL_HOP,
        emission={"policy": "changes"},
    ) as (names, [agent]):  # fmt: skip
        before = agent.cpu_s
        asyncio.run(write_rows(world.bootstrap, names.input, rows))
        time.sleep(1)
        resident = settled(agent)
        spent = agent.cpu_s - before
    return UsualCosts(spent / records, size / records, resident)


def _page(runs: dict[int, Run], usual: UsualCosts) -> list[str]:
    return [
        "# Scaling out",
        "",
        f"Written by `python -m tests.bench.scale --out docs/scale.md` ({datetime.now(UTC):%Y-%m-%d %H:%M} UTC, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores); do not edit.",
        "",
        "Agents of one consumer group divide the partitions among themselves, over cores and over machines. One agent "
        "can use more than one core, because a compiled model leaves the interpreter's lock to the event loop and the "
        "event thread, but not two.",
        "",
        "## Measured",
        "",
        f"{_ASSETS} assets in {_PARTITIONS} partitions, a window every 4 steps, every window an event with evidence. "
        "Broker, Redis and agents share the cores, so more agents than cores show what the division itself costs.",
        "",
        "| agents | explained windows/s | × one agent | processor µs per window | resident MB each |",
        "| --- | --- | --- | --- | --- |",
        *(_run_row(agents, run, runs[1]) for agents, run in runs.items()),
        "",
        f"As plants usually run, changes published and a window every {_USUAL_HOP} steps ({_USUAL_ASSETS} assets): "
        f"**{usual.record_s * 1e6:.0f} µs of processor per record** of {usual.record_bytes:.0f} bytes, windows, model "
        f"and evidence included; {usual.resident / 1e6:.0f} MB resident while catching up.",
        "",
        "## Calculated",
        "",
        "By the formulas of `agent.planning` from the cost per record above: 5 channels, windows of 128 steps, changes "
        "published (one window in fifty an event of 4 KB, assumed), 60 % utilisation at a peak of 1.5 times the mean, "
        "one agent in reserve, partitions for half as many assets again, one hour of outage caught up within two.",
        "",
        "| assets | rate | records/s | agents (1 core each) | partitions | fullest agent | Redis | broker in | "
        "catch-up | take-over of one agent's windows |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(_plan_row(assets, rate, usual) for assets in (100_000, 1_000_000) for rate in (0.1, 1.0, 10.0)),
        "",
        f"A killed agent is noticed after the session time-out ({_SESSION_S:.0f} s by default), then its partitions "
        f"are read from Redis at {_REDIS_BYTES_PER_S / 1e6:.0f} MB/s (assumed); both are in the last column. Agents "
        "that stop in order hand over at once.",
        "",
        "## What breaks first",
        "",
        *_first(usual),
        "",
    ]


def _run_row(agents: int, run: Run, one: Run) -> str:
    per_window, resident = run.cpu_s / run.events * 1e6, run.resident / agents / 1e6
    return f"| {agents} | {run.per_s:,.0f} | {run.per_s / one.per_s:.2f} | {per_window:.0f} | {resident:.0f} |"


def _capacity(assets: int, rate: float, usual: UsualCosts) -> Capacity:
    """All of the processor time is that of the record, which has its share of windows and events in it."""
    nothing = Figure(0.0, "assumed")
    costs = Costs(
        record_s=Figure(usual.record_s, "measured here"),
        window_s=nothing,
        event_s=nothing,
        events_per_window=Figure(0.02, "assumed"),
        record_bytes=Figure(usual.record_bytes, "measured here"),
        event_bytes=Figure(4000.0, "assumed"),
        asset_bytes=Figure(2 * ring_slots(128, _USUAL_HOP, 0) * 5 * 4 + 1024, "assumed"),
        window_bytes=nothing,
        header_bytes=nothing,
    )
    load = Load(assets, rate, channels=5, length=128, hop=_USUAL_HOP, lateness=0, costs=costs)
    base = Figure(usual.resident, "measured here")
    return plan([load], Terms(outage_s=3600.0, catch_up_s=7200.0, base_bytes=base))


def _plan_row(assets: int, rate: float, usual: UsualCosts) -> str:
    found = _capacity(assets, rate, usual)
    taken = _SESSION_S + found.redis_bytes / found.replicas / _REDIS_BYTES_PER_S
    return (
        f"| {assets:,} | {rate:g} Hz | {found.records_per_s:,.0f} | {found.replicas:,} | {found.partitions:,} | "
        f"{found.agent_bytes / 1e6:,.0f} MB | {found.redis_maxmemory / (1 << 30):,.2f} GiB | "
        f"{found.in_bytes_per_s / 1e6:,.1f} MB/s | {(found.catch_up_s or 0.0) / 60:,.0f} min | {taken:.0f} s |"
    )


def _first(usual: UsualCosts) -> list[str]:
    """In the order in which a growing plant meets them."""
    small, large = _capacity(100_000, 1.0, usual), _capacity(1_000_000, 1.0, usual)
    return [
        f"1. **Processor of the agents**: {small.cores:.0f} cores for 100,000 assets at 1 Hz, {large.cores:.0f} for "
        "1,000,000. It grows with the records, divides evenly, and is what to order first.",
        f"2. **One Redis server**: {large.redis_maxmemory / (1 << 30):.0f} GiB with room for its rewrite at 1,000,000 "
        "assets; beyond the memory of one machine use a cluster (docs/redis.md). Checkpoints write what is new, about "
        f"{large.records_per_s * 20 / 1e6:,.0f} MB/s there.",
        f"3. **The broker's network**: {large.in_bytes_per_s / 1e6:,.0f} MB/s in, as much out to the agents, and again "
        "for each replica. A sample takes 20 bytes in binary chunks (docs/records.md) instead of "
        f"{usual.record_bytes:.0f}.",
        f"4. **Partitions**: {large.partitions:,} at 1,000,000 assets and 1 Hz. Kafka carries them; a rebalance of one "
        "group with that many members takes tens of seconds with the classic protocol, so divide such a plant into "
        "several namespaces by topic before that.",
        "5. **The alarm worker**: one console is one worker's; see docs/results/alarms.md for its inputs per second.",
    ]


if __name__ == "__main__":
    main()
