"""The injuries: each does its harm, waits until the agents are well again and says how long that took."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from agent.chaos import service_faults as services
from agent.chaos.agents import REFUSED, AgentProcess
from agent.chaos.context import AFTER_RESTART_S, FaultContext
from agent.chaos.errors import ChaosError
from agent.chaos.report import FaultOutcome
from agent.chaos.waiting import until
from connectors.failpoints import DURING_TAKEOVER, POINTS

Reach = Literal["own", "server", "process"]
"""Whom it hurts: only what belongs to the trial; everybody who uses the server; the server's very process."""

_WAKING_S = 20.0
_JOINING_S = 60.0


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    meaning: str
    reach: Reach
    inflict: Callable[[FaultContext], Awaitable[FaultOutcome]]


async def kill_agent(ward: FaultContext) -> FaultOutcome:
    victim = ward.anyone()
    starts = victim.starts
    victim.kill()
    restarted_s = await ward.restarted(victim, starts)
    return FaultOutcome("agent-kill", await ward.recovered(restarted_s), AFTER_RESTART_S)


async def kill_all_agents(ward: FaultContext) -> FaultOutcome:
    """Some seconds without anybody: what was stored last is far behind when they come back."""
    victims = ward.fleet.living
    for victim in victims:
        victim.wanted = False
        victim.kill()
    await asyncio.sleep(ward.random.uniform(1, 3))
    for victim in victims:
        victim.wanted = True
    return FaultOutcome("all-agents-kill", await ward.recovered(time.monotonic()), AFTER_RESTART_S)


async def die_at(point: str, ward: FaultContext) -> FaultOutcome:
    """The agent comes back alone half of the time, to a backlog."""
    victim = ward.anyone()
    others = [agent for agent in ward.fleet.living if agent is not victim and ward.random.random() < 0.5]
    for agent in (victim, *others):
        agent.wanted = False
        agent.kill()
    passing = 1 if point == DURING_TAKEOVER else ward.random.randint(1, 4)
    victim.start(failpoint=f"{point}:{passing}")
    starts, victim.wanted = victim.starts, True
    restarted_s = await ward.restarted(victim, starts)
    for agent in others:
        agent.wanted = True
    return FaultOutcome(
        f"die-{point.replace('_', '-')}", await ward.recovered(restarted_s), AFTER_RESTART_S, f"passing {passing}"
    )


async def rebalance(ward: FaultContext) -> FaultOutcome:
    """A further agent comes and goes."""
    guest, begun_s = ward.fleet.add(), time.monotonic()
    try:
        if not await until(lambda: guest.working, _JOINING_S):
            raise ChaosError(f"{guest.name} joined and got no partition within {_JOINING_S:g} s")
        guest.wanted, leaving_s = False, time.monotonic()
        code = await guest.terminate()
    finally:
        guest.wanted = False
        guest.kill()
        ward.fleet.agents.remove(guest)
    if code != 0:
        raise ChaosError(f"the agent that was asked to leave ended with {code}:\n{guest.said().decode()[-2000:]}")
    note = f"came within {leaving_s - begun_s:.1f} s, left within {time.monotonic() - leaving_s:.1f} s"
    return FaultOutcome("rebalance", await ward.recovered(leaving_s), ward.goal_s, note)


async def stop_and_wake(ward: FaultContext) -> FaultOutcome:
    """An owner that stands still until the group has replaced it, and then wants to write."""
    if len(ward.fleet.living) < 2:
        raise ChaosError("somebody must be there to replace the owner; run two agents")
    victim = ward.anyone()
    heard = len(victim.said())
    begun_s, starts = time.monotonic(), victim.starts
    others = [agent for agent in ward.fleet.living if agent is not victim]
    taken = sum(agent.takings for agent in others)
    victim.signal(signal.SIGSTOP)
    try:
        if not await until(lambda: sum(agent.takings for agent in others) > taken, ward.member_timeout_s + _JOINING_S):
            raise ChaosError(f"nobody took over from {victim.name}, which stood still")
        recovered_s = await ward.recovered(begun_s)
    finally:
        victim.signal(signal.SIGCONT)
    refused = await _refusal(victim, heard, starts)
    if refused:
        await ward.restarted(victim, starts)  # a refused writer stops; until then it is nobody's next victim
    return FaultOutcome("zombie", recovered_s, ward.goal_s, refused or "woke up with nothing to write")


async def _refusal(victim: AgentProcess, heard: int, starts: int) -> str | None:
    """What it was told when it tried to write; None when it went on as a new member, without having tried."""
    taken = victim.takings
    decided = await until(
        lambda: bool(REFUSED.search(victim.said(heard))) or victim.starts > starts or victim.takings > taken, _WAKING_S
    )
    if found := REFUSED.search(victim.said(heard)):
        return f"refused: {found[0].decode()}"
    if not decided:
        words = victim.said(heard).decode(errors="replace")[-2000:]
        raise ChaosError(f"{victim.name} woke up, was not refused and took nothing:\n{words}")
    return None


INJURIES = {
    injury.name: injury
    for injury in (
        Fault("agent-kill", "kill -9 of an agent", "own", kill_agent),
        Fault("all-agents-kill", "kill -9 of all agents, some seconds nobody", "own", kill_all_agents),
        *(
            Fault(
                f"die-{point.replace('_', '-')}",
                f"an agent kills itself {point.replace('_', ' ')}",
                "own",
                partial(die_at, point),
            )
            for point in POINTS
        ),
        Fault("rebalance", "a further agent joins, then leaves", "own", rebalance),
        Fault("zombie", "SIGSTOP of an owner until it is replaced, then SIGCONT", "own", stop_and_wake),
        Fault("redis-flush", "every key of the trial vanishes", "own", services.flush),
        Fault(
            "redis-flush-agents-kill",
            "every key vanishes while no agent lives",
            "own",
            services.flush_under_dead_agents,
        ),
        Fault("sink-refuses", "the events topic takes no message", "own", services.refuse_events),
        Fault("redis-full", "Redis has no memory left", "server", services.fill_redis),
        Fault("redis-slow", "Redis answers after seconds", "server", services.slow_redis),
        Fault("redis-restart", "Redis is stopped and started", "process", services.restart_redis),
        Fault("redis-kill", "kill -9 of Redis", "process", services.kill_redis),
        Fault("broker-restart", "the broker is stopped and started", "process", services.restart_broker),
        Fault("broker-kill", "kill -9 of the broker", "process", services.kill_broker),
    )
}
