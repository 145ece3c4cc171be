"""What a fault may act on, and how it waits until the agents have recovered."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from agent.chaos.agents import AgentFleet, AgentProcess, ChaosError, wait_until
from agent.chaos.config import ExperimentNames
from agent.chaos.judge import Segment
from agent.chaos.workload import Workload
from connectors.kafka.cluster import Cluster
from connectors.kafka.group_offsets import GroupOffsets, Offsets
from connectors.redis.server import Server

_CHECK_EVERY_S = 0.1
_RECOVERY_TIMEOUT_S = 120.0
_RESTART_TIMEOUT_S = 120.0
RESTART_GOAL_S = 15.0
_REBALANCE_GOAL_S = 10.0


class ManagedService(Protocol):
    """A server process that the experiment may stop. The calls block until done."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Services:
    """None for a server that others use too: it is never stopped."""

    broker: ManagedService | None = None
    redis: ManagedService | None = None


@dataclass(slots=True)
class FaultContext:
    """`key_prefix` is the prefix of all Redis keys of the experiment. `segment` is what the log's last break has begun.

    `reach_ns` is how far a window and what it is compared with reach back. A window that ends within `settle_ns` of a
    break may hold no sample of what comes after it: samples are late, broken or missing.
    """

    fleet: AgentFleet
    cluster: Cluster
    server: Server
    names: ExperimentNames
    group: str
    key_prefix: str
    services: Services
    random: Random
    member_timeout_s: float
    workload: Workload
    reach_ns: int
    settle_ns: int
    segment: Segment = field(default_factory=Segment)
    _offsets: GroupOffsets | None = None

    @property
    def rebalance_goal_s(self) -> float:
        """For faults after which nothing is restarted: first the group has to notice that a member is missing."""
        return self.member_timeout_s + _REBALANCE_GOAL_S

    @property
    def offsets(self) -> GroupOffsets:
        if self._offsets is None:
            size = self.workload.partitions
            self._offsets = GroupOffsets(self.cluster, self.names.input, self.group, partitions=size)
        return self._offsets

    async def forget_offsets(self) -> None:
        """After the topic has changed: more partitions, or another one under the same name."""
        if self._offsets is not None:
            await self._offsets.close()
        self._offsets = None

    def random_agent(self) -> AgentProcess:
        """One that runs, if there is one: killing one that is not up yet is no fault."""
        running = [agent for agent in self.fleet.kept_running if agent.has_partition]
        return self.random.choice(running or self.fleet.kept_running)

    def stop_all(self) -> list[AgentProcess]:
        """kill -9; nobody starts them again before `start_all`."""
        agents = self.fleet.kept_running
        for agent in agents:
            agent.keep_running = False
            agent.kill()
        return agents

    def start_all(self, agents: Sequence[AgentProcess]) -> float:
        """The supervisor does it at once. Returns when."""
        for agent in agents:
            agent.keep_running = True
        return time.monotonic()

    async def kill_all(self) -> float:
        """kill -9 of all agents at once; returns when the last of them was started again."""
        agents = self.fleet.kept_running
        starts = {agent.name: agent.starts for agent in agents}
        for agent in agents:
            agent.kill()
        return max([await self.wait_for_restart(agent, starts[agent.name]) for agent in agents])

    async def wait_for_recovery(self, since_s: float, *, timeout_s: float = _RECOVERY_TIMEOUT_S) -> float:
        """Seconds from `since_s` until everything that is in the log now is committed.

        A commit beyond the end of the log is one of a log that was replaced.
        """
        ends, deadline = await self.offsets.ends(), time.monotonic() + timeout_s
        while True:
            committed = await self.offsets.committed()
            done_s = time.monotonic()
            if _reaches(committed, ends) and _reaches(await self.offsets.ends(), committed):
                return done_s - since_s
            if done_s > deadline:
                behind = f"committed {committed}, end of the log {ends}"
                raise ChaosError(f"no recovery within {timeout_s:g} s: {behind}\n{self.fleet.log_tails()}")
            await asyncio.sleep(_CHECK_EVERY_S)

    async def wait_for_restart(
        self, agent: AgentProcess, starts: int, *, timeout_s: float = _RESTART_TIMEOUT_S
    ) -> float:
        """When the supervisor started it again, after `starts` starts."""
        if not await wait_until(lambda: agent.starts > starts, timeout_s):
            raise ChaosError(f"{agent.name} did not exit within {timeout_s:g} s:\n{agent.log_tail()}")
        return agent.started_s


def _reaches(offsets: Offsets, wanted: Offsets) -> bool:
    return all(offsets.get(number, 0) >= offset for number, offset in wanted.items())
