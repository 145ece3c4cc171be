"""The faults: each is injected, waits until the agents have recovered and reports how long that took."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from agent.chaos import service_faults as services
from agent.chaos.agents import AgentProcess, ChaosError, wait_until
from agent.chaos.context import RESTART_GOAL_S, FaultContext
from agent.chaos.report import FaultOutcome
from connectors.failpoints import DURING_TAKEOVER, POINTS

Scope = Literal["experiment", "server", "process"]
"""What is affected: only the experiment's own; everyone who uses the server; the server's process itself."""

_WAKE_TIMEOUT_S = 20.0
_JOIN_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    description: str
    scope: Scope
    inject: Callable[[FaultContext], Awaitable[FaultOutcome]]


async def kill_agent(context: FaultContext) -> FaultOutcome:
    agent = context.random_agent()
    starts = agent.starts
    agent.kill()
    restarted_s = await context.wait_for_restart(agent, starts)
    return FaultOutcome("agent-kill", await context.wait_for_recovery(restarted_s), RESTART_GOAL_S)


async def kill_all_agents(context: FaultContext) -> FaultOutcome:
    """For some seconds no agent runs, so the last checkpoints are far behind when they are restarted."""
    agents = context.fleet.kept_running
    for agent in agents:
        agent.keep_running = False
        agent.kill()
    await asyncio.sleep(context.random.uniform(1, 3))
    for agent in agents:
        agent.keep_running = True
    return FaultOutcome("all-agents-kill", await context.wait_for_recovery(time.monotonic()), RESTART_GOAL_S)


async def kill_at_failpoint(point: str, context: FaultContext) -> FaultOutcome:
    """Half of the time no other agent runs meanwhile, so that the agent comes back to a backlog."""
    agent = context.random_agent()
    others = [other for other in context.fleet.kept_running if other is not agent and context.random.random() < 0.5]
    for each in (agent, *others):
        each.keep_running = False
        each.kill()
    hits = 1 if point == DURING_TAKEOVER else context.random.randint(1, 4)
    agent.start(failpoint=f"{point}:{hits}")
    starts, agent.keep_running = agent.starts, True
    restarted_s = await context.wait_for_restart(agent, starts)
    for other in others:
        other.keep_running = True
    recovered_s = await context.wait_for_recovery(restarted_s)
    return FaultOutcome(_failpoint_name(point), recovered_s, RESTART_GOAL_S, f"hit {hits}")


async def rebalance(context: FaultContext) -> FaultOutcome:
    """A further agent joins the group and leaves it again."""
    guest, started_s = context.fleet.add(), time.monotonic()
    try:
        if not await wait_until(lambda: guest.has_partition, _JOIN_TIMEOUT_S):
            raise ChaosError(f"{guest.name} joined and got no partition within {_JOIN_TIMEOUT_S:g} s")
        guest.keep_running, leaving_s = False, time.monotonic()
        code = await guest.terminate()
    finally:
        guest.keep_running = False
        guest.kill()
        context.fleet.agents.remove(guest)
    if code != 0:
        raise ChaosError(f"the agent that was told to leave exited with {code}:\n{guest.log_tail()}")
    note = f"joined within {leaving_s - started_s:.1f} s, left within {time.monotonic() - leaving_s:.1f} s"
    return FaultOutcome("rebalance", await context.wait_for_recovery(leaving_s), context.rebalance_goal_s, note)


async def pause_owner(context: FaultContext) -> FaultOutcome:
    """An owner is paused until the group has replaced it; then it resumes and may try to write."""
    if len(context.fleet.kept_running) < 2:
        raise ChaosError("zombie needs a second agent that replaces the first")
    agent = context.random_agent()
    log_position = len(agent.read_log())
    started_s, starts = time.monotonic(), agent.starts
    others = [other for other in context.fleet.kept_running if other is not agent]
    taken = sum(other.partitions_taken for other in others)
    agent.signal(signal.SIGSTOP)
    try:
        timeout_s = context.member_timeout_s + _JOIN_TIMEOUT_S
        if not await wait_until(lambda: sum(other.partitions_taken for other in others) > taken, timeout_s):
            raise ChaosError(f"no agent took over the partitions of {agent.name}, which was paused")
        recovered_s = await context.wait_for_recovery(started_s)
    finally:
        agent.signal(signal.SIGCONT)
    refusal = await _wait_for_refusal(agent, log_position, starts)
    if refusal is not None:
        await context.wait_for_restart(agent, starts)  # a refused writer exits; no fault may pick it until then
    note = "resumed with nothing to write" if refusal is None else f"refused: {refusal}"
    return FaultOutcome("zombie", recovered_s, context.rebalance_goal_s, note)


async def _wait_for_refusal(agent: AgentProcess, log_position: int, starts: int) -> str | None:
    """Why its write was refused; None when it went on as a new member without having tried to write."""
    taken = agent.partitions_taken
    decided = await wait_until(
        lambda: agent.refusal(log_position) is not None or agent.starts > starts or agent.partitions_taken > taken,
        _WAKE_TIMEOUT_S,
    )
    refusal = agent.refusal(log_position)
    if refusal is None and not decided:
        raise ChaosError(f"{agent.name} resumed, was not refused and took no partition:\n{agent.log_tail()}")
    return refusal


def _failpoint_name(point: str) -> str:
    return f"die-{point.replace('_', '-')}"


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("agent-kill", "kill -9 of an agent", "experiment", kill_agent),
        Fault("all-agents-kill", "kill -9 of all agents, none runs for some seconds", "experiment", kill_all_agents),
        *(
            Fault(
                _failpoint_name(point),
                f"an agent kills itself {point.replace('_', ' ')}",
                "experiment",
                partial(kill_at_failpoint, point),
            )
            for point in POINTS
        ),
        Fault("rebalance", "a further agent joins, then leaves", "experiment", rebalance),
        Fault("zombie", "SIGSTOP of an owner until it is replaced, then SIGCONT", "experiment", pause_owner),
        Fault("redis-flush", "every key of the experiment is deleted", "experiment", services.delete_keys),
        Fault(
            "redis-flush-agents-kill",
            "every key is deleted while no agent runs",
            "experiment",
            services.delete_keys_without_agents,
        ),
        Fault("sink-refuses", "the events topic rejects every message", "experiment", services.reject_events),
        Fault("redis-full", "Redis has no memory left", "server", services.fill_redis),
        Fault("redis-slow", "Redis replies after seconds", "server", services.delay_redis),
        Fault("redis-restart", "Redis is stopped and started", "process", services.restart_redis),
        Fault("redis-kill", "kill -9 of Redis", "process", services.kill_redis),
        Fault("broker-restart", "the broker is stopped and started", "process", services.restart_broker),
        Fault("broker-kill", "kill -9 of the broker", "process", services.kill_broker),
    )
}
