"""What a fault may act on, and how it waits until the agents have recovered."""

import asyncio
import time
from dataclasses import dataclass
from random import Random
from typing import Protocol

from agent.chaos.agents import AgentFleet, AgentProcess, ChaosError, wait_until
from agent.chaos.config import ExperimentNames
from connectors.kafka.cluster import Cluster
from connectors.kafka.group_offsets import GroupOffsets
from connectors.redis.server import Server

_CHECK_EVERY_S = 0.2
_RECOVERY_TIMEOUT_S = 120.0
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


@dataclass(frozen=True, slots=True)
class FaultContext:
    """`key_prefix` is the prefix of all Redis keys of the experiment."""

    fleet: AgentFleet
    cluster: Cluster
    server: Server
    names: ExperimentNames
    key_prefix: str
    offsets: GroupOffsets
    services: Services
    random: Random
    member_timeout_s: float

    @property
    def rebalance_goal_s(self) -> float:
        """For faults after which nothing is restarted: first the group has to notice that a member is missing."""
        return self.member_timeout_s + _REBALANCE_GOAL_S

    def random_agent(self) -> AgentProcess:
        return self.random.choice(self.fleet.kept_running)

    async def wait_for_recovery(self, since_s: float) -> float:
        """Seconds from `since_s` until everything that is in the log now is committed."""
        ends = await self.offsets.ends()
        deadline = time.monotonic() + _RECOVERY_TIMEOUT_S
        while True:
            committed = await self.offsets.committed()
            if all(committed.get(number, 0) >= end for number, end in ends.items()):
                return time.monotonic() - since_s
            if time.monotonic() > deadline:
                behind = f"committed {committed}, end of the log {ends}"
                raise ChaosError(f"no recovery within {_RECOVERY_TIMEOUT_S:g} s: {behind}")
            await asyncio.sleep(_CHECK_EVERY_S)

    async def wait_for_restart(self, agent: AgentProcess, starts: int, *, timeout_s: float = 120) -> float:
        """When the supervisor started it again, after `starts` starts."""
        if not await wait_until(lambda: agent.starts > starts, timeout_s):
            raise ChaosError(f"{agent.name} did not exit within {timeout_s:g} s:\n{agent.log_tail()}")
        return agent.started_s
