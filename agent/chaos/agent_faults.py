"""Faults of agents and their group: killed anywhere, paused, replaced, told to stop, joined by others."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.chaos.agents import AgentProcess, ChaosError, wait_until
from agent.chaos.context import RESTART_GOAL_S, FaultContext
from agent.chaos.report import FaultOutcome
from connectors.failpoints import DURING_TAKEOVER, RAISED

_WAKE_TIMEOUT_S = 20.0
_JOIN_TIMEOUT_S = 90.0
_RAISE_TIMEOUT_S = 20.0


async def kill_agent(context: FaultContext) -> FaultOutcome:
    agent = context.random_agent()
    starts = agent.starts
    agent.kill()
    restarted_s = await context.wait_for_restart(agent, starts)
    return FaultOutcome("agent-kill", await context.wait_for_recovery(restarted_s), RESTART_GOAL_S)


async def kill_all_agents(context: FaultContext) -> FaultOutcome:
    """For some seconds no agent runs, so the last checkpoints are far behind when they are restarted."""
    agents = context.stop_all()
    await asyncio.sleep(context.random.uniform(0.5, 2))
    started_s = context.start_all(agents)
    return FaultOutcome("all-agents-kill", await context.wait_for_recovery(started_s), RESTART_GOAL_S)


async def kill_at_failpoint(point: str, context: FaultContext) -> FaultOutcome:
    """Half of the time no other agent runs meanwhile, so that the agent comes back to a backlog."""
    agent = context.random_agent()
    alone = context.random.random() < 0.5
    others = [other for other in context.fleet.kept_running if other is not agent] if alone else []
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
    return FaultOutcome(failpoint_name(point), recovered_s, RESTART_GOAL_S, f"hit {hits}")


async def raise_inside(point: str, context: FaultContext) -> FaultOutcome:
    """An exception that no code expects, once: the batch is tried again in parts, and nothing of it may be lost."""
    agent = context.random_agent()
    agent.keep_running = False
    agent.kill()
    position = len(agent.read_log())
    agent.start(failpoint=f"{point}:{context.random.randint(1, 4)}")
    started_s, agent.keep_running = agent.started_s, True
    reached = await wait_until(lambda: RAISED.encode() in agent.read_log(position), _RAISE_TIMEOUT_S)
    note = "" if reached else "not reached"
    recovered_s = await context.wait_for_recovery(started_s)
    return FaultOutcome(raising_name(point), recovered_s, RESTART_GOAL_S, note)


async def rebalance(context: FaultContext) -> FaultOutcome:
    """A further agent joins the group and leaves it again."""
    async with _guests(context, 1) as [guest]:
        started_s = time.monotonic()
        await _wait_for_a_guest([guest])
        leaving_s = time.monotonic()
        await _leave(guest)
    note = f"joined within {leaving_s - started_s:.1f} s, left within {time.monotonic() - leaving_s:.1f} s"
    return FaultOutcome("rebalance", await context.wait_for_recovery(leaving_s), context.rebalance_goal_s, note)


async def join_two(context: FaultContext) -> FaultOutcome:
    """Two further agents join at the same time; one is killed, the other leaves."""
    async with _guests(context, 2) as guests:
        await _wait_for_a_guest(guests)
        left_s = time.monotonic()
        guests[1].kill()
        await guests[0].terminate()
    return FaultOutcome("two-joins", await context.wait_for_recovery(left_s), context.rebalance_goal_s)


async def stop_agent(context: FaultContext) -> FaultOutcome:
    """SIGTERM, and the supervisor starts it again."""
    agent = context.random_agent()
    starts = agent.starts
    agent.signal(signal.SIGTERM)
    restarted_s = await context.wait_for_restart(agent, starts)
    return FaultOutcome("agent-stop", await context.wait_for_recovery(restarted_s), RESTART_GOAL_S)


async def stop_in_rebalance(context: FaultContext) -> FaultOutcome:
    """SIGTERM to an owner at a random moment of the rebalance that a joining agent has caused."""
    agent = context.random_agent()
    starts, taken = agent.starts, context.fleet.partitions_taken
    async with _guests(context, 1) as [guest]:
        await wait_until(lambda: context.fleet.partitions_taken > taken or not guest.running, _JOIN_TIMEOUT_S)
        await asyncio.sleep(context.random.uniform(0, 0.5))
        agent.signal(signal.SIGTERM)
        restarted_s = await context.wait_for_restart(agent, starts)
        await guest.terminate()
    return FaultOutcome("stop-in-rebalance", await context.wait_for_recovery(restarted_s), RESTART_GOAL_S)


async def pause_briefly(context: FaultContext) -> FaultOutcome:
    """Shorter than the member time-out: nobody replaces it."""
    agent, started_s = context.random_agent(), time.monotonic()
    agent.signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(context.random.uniform(0.3, 0.6) * context.member_timeout_s)
    finally:
        agent.signal(signal.SIGCONT)
    return FaultOutcome("agent-pause", await context.wait_for_recovery(started_s), context.rebalance_goal_s)


@asynccontextmanager
async def _guests(context: FaultContext, count: int) -> AsyncIterator[list[AgentProcess]]:
    """Further agents that are not started again after their end."""
    guests = [context.fleet.add(keep_running=False) for _ in range(count)]
    try:
        for guest in guests:
            guest.start()
        yield guests
    finally:
        for guest in guests:
            guest.kill()
            context.fleet.agents.remove(guest)


async def _wait_for_a_guest(guests: list[AgentProcess]) -> None:
    """Until one has a partition. One that exits meanwhile, as a member that was thrown out does, is started again."""
    deadline = time.monotonic() + _JOIN_TIMEOUT_S
    while not any(guest.has_partition for guest in guests):
        if time.monotonic() > deadline:
            raise ChaosError(f"{guests[0].name} joined and got no partition:\n{guests[0].log_tail()}")
        for guest in (guest for guest in guests if not guest.running):
            guest.start()
        await asyncio.sleep(0.05)


async def _leave(guest: AgentProcess) -> None:
    code = await guest.terminate()
    if code != 0:
        raise ChaosError(f"the agent that was told to leave exited with {code}:\n{guest.log_tail()}")


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


def raising_name(point: str) -> str:
    return f"raise-{point.replace('_', '-')}"


def failpoint_name(point: str) -> str:
    return f"die-{point.replace('_', '-')}"
