"""Another version of the agent joins the group and is replaced again: a rolling upgrade and its way back."""

import asyncio
import signal

from agent.chaos.agents import AgentProcess, ChaosError, wait_until
from agent.chaos.context import RESTART_GOAL_S, FaultContext
from agent.chaos.fault import Fault
from agent.chaos.report import FaultOutcome
from tests.fault.descriptions import DESCRIPTIONS
from tests.support.releases import EARLIER, release_source

_JOIN_TIMEOUT_S = 90.0


def version_changes() -> list[Fault]:
    return [
        Fault("version-change", DESCRIPTIONS["version-change"], "experiment", change_version),
    ]


async def change_version(context: FaultContext) -> FaultOutcome:
    agent = context.random_agent()
    agent.source = await asyncio.to_thread(release_source)  # unpacks and compiles at the first time
    try:
        await restart(context, agent)
        if not await wait_until(lambda: agent.has_partition, _JOIN_TIMEOUT_S):
            raise ChaosError(f"{agent.name} of {EARLIER} got no partition:\n{agent.log_tail()}")
    finally:
        agent.source = None
    restarted_s = await restart(context, agent)
    return FaultOutcome("version-change", await context.wait_for_recovery(restarted_s), RESTART_GOAL_S)


async def restart(context: FaultContext, agent: AgentProcess) -> float:
    """kill -9 or SIGTERM, as it happens; the supervisor starts what `source` names. Returns when."""
    starts = agent.starts
    agent.signal(context.random.choice((signal.SIGKILL, signal.SIGTERM)))
    return await context.wait_for_restart(agent, starts)
