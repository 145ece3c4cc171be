"""Faults of Redis and Kafka: injected over their protocols, or into their processes where the experiment owns them."""

import asyncio
import time
from collections.abc import Callable

from agent.chaos.agents import ChaosError
from agent.chaos.context import RESTART_GOAL_S, FaultContext, ManagedService
from agent.chaos.report import FaultOutcome
from connectors.kafka.admin import configure_topic
from connectors.redis.fault_injection import delay_replies, forget_keys, limit_memory


async def delete_keys(context: FaultContext) -> FaultOutcome:
    started_s = time.monotonic()
    deleted = await forget_keys(context.server, context.key_prefix)
    recovered_s = await context.wait_for_recovery(started_s)
    return FaultOutcome("redis-flush", recovered_s, context.rebalance_goal_s, f"{deleted} keys deleted")


async def delete_keys_without_agents(context: FaultContext) -> FaultOutcome:
    """No agent has the windows in memory any more: they are rebuilt from the log."""
    agents = context.fleet.kept_running
    for agent in agents:
        agent.keep_running = False
        agent.kill()
    deleted = await forget_keys(context.server, context.key_prefix)
    for agent in agents:
        agent.keep_running = True
    recovered_s = await context.wait_for_recovery(time.monotonic())
    return FaultOutcome("redis-flush-agents-kill", recovered_s, RESTART_GOAL_S, f"{deleted} keys deleted")


async def reject_events(context: FaultContext) -> FaultOutcome:
    """Agents exit, are restarted and exit again until the topic accepts messages."""
    topic = context.names.outputs["events"]
    starts = sum(agent.starts for agent in context.fleet)
    await configure_topic(context.cluster, topic, {"max.message.bytes": "1"})
    try:
        await asyncio.sleep(context.random.uniform(4, 6))
    finally:
        await configure_topic(context.cluster, topic, {})
    restarts = sum(agent.starts for agent in context.fleet) - starts
    recovered_s = await context.wait_for_recovery(time.monotonic())
    return FaultOutcome("sink-refuses", recovered_s, RESTART_GOAL_S, f"{restarts} restarts of agents")


async def fill_redis(context: FaultContext) -> FaultOutcome:
    async with limit_memory(context.server):
        await asyncio.sleep(context.random.uniform(2, 4))
    return FaultOutcome("redis-full", await context.wait_for_recovery(time.monotonic()), context.rebalance_goal_s)


async def delay_redis(context: FaultContext) -> FaultOutcome:
    """Several delays in a row, shorter and longer than the agents' time-out."""
    for _ in range(3):
        delay_s = context.random.uniform(0.3, 3)
        await delay_replies(context.server, delay_s)
        await asyncio.sleep(delay_s + 0.2)
    return FaultOutcome("redis-slow", await context.wait_for_recovery(time.monotonic()), context.rebalance_goal_s)


async def restart_redis(context: FaultContext) -> FaultOutcome:
    return await _stop_and_start(context, "redis-restart", context.services.redis, lambda server: server.stop())


async def kill_redis(context: FaultContext) -> FaultOutcome:
    return await _stop_and_start(context, "redis-kill", context.services.redis, lambda server: server.kill())


async def restart_broker(context: FaultContext) -> FaultOutcome:
    return await _stop_and_start(context, "broker-restart", context.services.broker, lambda server: server.stop())


async def kill_broker(context: FaultContext) -> FaultOutcome:
    return await _stop_and_start(context, "broker-kill", context.services.broker, lambda server: server.kill())


async def _stop_and_start(
    context: FaultContext, name: str, server: ManagedService | None, stop: Callable[[ManagedService], None]
) -> FaultOutcome:
    if server is None:
        raise ChaosError(f"{name}: the experiment does not own the server's process")
    await asyncio.to_thread(stop, server)
    await asyncio.sleep(context.random.uniform(0, 3))
    await asyncio.to_thread(server.start)
    return FaultOutcome(name, await context.wait_for_recovery(time.monotonic()), RESTART_GOAL_S)
