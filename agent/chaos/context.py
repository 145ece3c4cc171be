"""What an injury may touch, and how it knows that the agents are well again."""

import asyncio
import time
from dataclasses import dataclass
from random import Random
from typing import Protocol

from agent.chaos.agents import AgentFleet, AgentProcess
from agent.chaos.config import ExperimentNames
from agent.chaos.errors import ChaosError
from agent.chaos.waiting import until
from connectors.kafka.cluster import Cluster
from connectors.kafka.group_offsets import GroupOffsets
from connectors.redis.server import Server

_LOOK_EVERY_S = 0.2
_PATIENCE_S = 120.0
AFTER_RESTART_S = 15.0
OTHERWISE_S = 10.0


class ManagedService(Protocol):
    """A server whose process belongs to whoever runs the trial. The calls block until done."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Services:
    """None for a server that is somebody else's: it is never stopped."""

    broker: ManagedService | None = None
    redis: ManagedService | None = None


@dataclass(frozen=True, slots=True)
class FaultContext:
    """`prefix` is what all keys of the trial begin with."""

    fleet: AgentFleet
    cluster: Cluster
    server: Server
    names: ExperimentNames
    prefix: str
    progress: GroupOffsets
    services: Services
    random: Random
    member_timeout_s: float

    @property
    def goal_s(self) -> float:
        """Where nothing was started anew, the group first has to notice that a member is missing."""
        return self.member_timeout_s + OTHERWISE_S

    def anyone(self) -> AgentProcess:
        return self.random.choice(self.fleet.living)

    async def recovered(self, since_s: float) -> float:
        """Seconds from `since_s` until everything is committed that is in the log now."""
        ends = await self.progress.ends()
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            committed = await self.progress.committed()
            if all(committed.get(number, 0) >= end for number, end in ends.items()):
                return time.monotonic() - since_s
            if time.monotonic() > deadline:
                raise ChaosError(f"no recovery within {_PATIENCE_S:g} s: committed {committed}, wanted {ends}")
            await asyncio.sleep(_LOOK_EVERY_S)

    async def restarted(self, agent: AgentProcess, starts: int, *, timeout_s: float = 120) -> float:
        """When the supervisor started it for the time after `starts`."""
        if not await until(lambda: agent.starts > starts, timeout_s):
            raise ChaosError(f"{agent.name} did not end as it was told, within {timeout_s:g} s")
        return agent.started_s
