"""Counts the partitions that change their owner when agents come and go, by assignor, on a real broker.

python -m tests.bench.rebalances --out docs/results/rebalances.md
"""

import argparse
import asyncio
import os
import platform
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

from connectors.kafka.assignors import Assignor
from connectors.kafka.cluster import Cluster
from connectors.kafka.source import KafkaSource, Subscription
from connectors.records import Partition
from tests.support.services.kafka import KafkaBroker

PARTITIONS = 12
SIZES = (1, 2, 3, 4, 3, 2, 1)
SESSION_MS = 6_000
_SETTLED_S = 1.0
_PATIENCE_S = 60.0

HEAD = f"""# Partitions that move when agents come and go

`python -m tests.bench.rebalances --out docs/results/rebalances.md`: members of one group on a real broker,
{PARTITIONS} partitions, one step after the other. *Moved* are partitions whose owner after the step is another one than
before it; *least* is how many must move if the load is to be even. *Still* is the time from the first partition that is
taken away until all have an owner again: Kafka's classic protocol takes all partitions from all members at each change,
whoever gets them afterwards. *Static* members have an instance id and do not leave the group when they stop: others get
their partitions after the session time-out ({SESSION_MS / 1000:g} s here, 45 s in the chart), which *still* does not
count. *Restart* stops one of three members and starts it again at once."""


@dataclass
class Member:
    """A consumer that polls for ever and knows what it owns."""

    name: str
    source: KafkaSource
    owned: set[Partition] = field(default_factory=set)
    changes: list[float] = field(default_factory=list)
    polling: asyncio.Task[None] | None = None

    async def assigned(self, partitions: Collection[Partition]) -> None:
        self.owned |= set(partitions)
        self.changes.append(asyncio.get_running_loop().time())

    async def revoked(self, partitions: Collection[Partition]) -> None:
        self.owned -= set(partitions)
        self.changes.append(asyncio.get_running_loop().time())

    async def start(self) -> None:
        await self.source.start(self)
        self.polling = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        while True:
            await self.source.poll(max_records=10, timeout_s=0.1)

    async def stop(self) -> None:
        if self.polling is not None:
            self.polling.cancel()
            await asyncio.gather(self.polling, return_exceptions=True)
        await self.source.close()


class Group:
    def __init__(self, bootstrap: str, topic: str, assignor: Assignor, *, static: bool) -> None:
        self._bootstrap, self._topic, self._static = bootstrap, topic, static
        self._name = f"{topic}-{assignor}-{static}"
        self.assignor = assignor
        self.members: dict[str, Member] = {}

    async def add(self, name: str) -> None:
        wanted = Subscription(
            topics=(self._topic,),
            group=self._name,
            instance_id=name if self._static else None,
            assignor=self.assignor,
            session_ms=SESSION_MS,
            heartbeat_ms=500,
            rebalance_ms=2 * SESSION_MS,
        )
        self.members[name] = Member(name, KafkaSource(Cluster(self._bootstrap), wanted))
        await self.members[name].start()

    async def remove(self, name: str) -> None:
        await self.members.pop(name).stop()

    async def resize(self, size: int) -> None:
        for number in range(len(self.members), size):
            await self.add(f"agent-{number}")
        for number in range(len(self.members) - 1, size - 1, -1):
            await self.remove(f"agent-{number}")

    async def close(self) -> None:
        for name in list(self.members):
            await self.remove(name)

    def owners(self) -> dict[Partition, str]:
        return {at: member.name for member in self.members.values() for at in member.owned}

    def is_even(self) -> bool:
        counts = [len(member.owned) for member in self.members.values()]
        return sum(counts) == len(self.owners()) == PARTITIONS and max(counts) - min(counts) <= 1

    async def settle(self) -> None:
        """Until every partition has one owner, the load is even, and it stays so."""
        async with asyncio.timeout(_PATIENCE_S):
            since_s: float | None = None
            before: dict[Partition, str] = {}
            while since_s is None or asyncio.get_running_loop().time() - since_s < _SETTLED_S:
                await asyncio.sleep(0.05)
                now = self.owners()
                if not self.is_even() or now != before:
                    since_s = None
                elif since_s is None:
                    since_s = asyncio.get_running_loop().time()
                before = now

    def still_s(self, since_s: float) -> float:
        times = [at for member in self.members.values() for at in member.changes if at >= since_s]
        return max(times) - min(times) if times else 0.0


@dataclass(frozen=True)
class Step:
    name: str
    least: int
    moved: int
    still_s: float


def least_moves(before: int, after: int) -> int:
    """That must change their owner for an even load: what the new ones get, or what those had that are gone."""
    if after > before:
        return sum(shares(after)[before:])
    return sum(shares(before)[after:])


def shares(members: int) -> list[int]:
    """Partitions of each, the larger ones first."""
    return [PARTITIONS // members + (number < PARTITIONS % members) for number in range(members)]


def moved(before: dict[Partition, str], after: dict[Partition, str]) -> int:
    return sum(before[at] != owner for at, owner in after.items() if at in before)


async def measure(bootstrap: str, topic: str, assignor: Assignor, *, static: bool) -> list[Step]:
    group, steps = Group(bootstrap, topic, assignor, static=static), []
    try:
        await group.resize(SIZES[0])
        await group.settle()
        for size_before, size in pairwise(SIZES):
            before, since_s = group.owners(), asyncio.get_running_loop().time()
            await group.resize(size)
            await group.settle()
            least = least_moves(size_before, size)
            steps.append(Step(f"{size_before} → {size}", least, moved(before, group.owners()), group.still_s(since_s)))
        await group.resize(3)
        await group.settle()
        before, since_s = group.owners(), asyncio.get_running_loop().time()
        await group.remove("agent-1")
        await group.add("agent-1")
        await group.settle()
        steps.append(Step("restart", 0, moved(before, group.owners()), group.still_s(since_s)))
    finally:
        await group.close()
    return steps


WAYS: Sequence[tuple[str, Assignor, bool]] = (
    ("roundrobin", "roundrobin", False),
    ("sticky", "sticky", False),
    ("roundrobin, static", "roundrobin", True),
    ("sticky, static", "sticky", True),
)


def table(found: dict[str, list[Step]]) -> str:
    names = list(found)
    rows = [
        f"| step | least | {' | '.join(f'{name}: moved, still' for name in names)} |",
        f"| --- {'| --- ' * (len(names) + 1)}|",
    ]
    for steps in zip(*found.values(), strict=True):
        cells = " | ".join(f"{step.moved}, {step.still_s:.1f} s" for step in steps)
        rows.append(f"| {steps[0].name} | {steps[0].least} | {cells} |")
    totals = " | ".join(str(sum(step.moved for step in steps)) for steps in found.values())
    rows.append(f"| together | {sum(step.least for step in found[names[0]])} | {totals} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="the page to write")
    given = parser.parse_args()
    kafka = KafkaBroker(quick_start=False)
    kafka.start()
    try:
        kafka.create_topic("rebalances", PARTITIONS)
        found = {
            name: asyncio.run(measure(kafka.bootstrap, "rebalances", assignor, static=static))
            for name, assignor, static in WAYS
        }
    finally:
        kafka.close()
    stamp = (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python {platform.python_version()}, aiokafka {version('aiokafka')}; "
        f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} with this run, so take times as rough."
    )
    page = f"{HEAD}\n\n{stamp}\n\n{table(found)}\n"
    print(page)
    if given.out:
        given.out.write_text(page)


if __name__ == "__main__":
    main()
