"""Faults of Redis and Kafka: injected over their protocols, or into their processes where the experiment owns them."""

import asyncio
import time
from collections.abc import Callable

from agent.chaos.agents import ChaosError
from agent.chaos.context import RESTART_GOAL_S, FaultContext, ManagedService
from agent.chaos.report import FaultOutcome
from connectors.kafka.admin import configure_topic
from connectors.redis.fault_injection import (
    delay_replies,
    disconnect_clients,
    forget_keys,
    limit_memory,
    read_only,
    refuse_snapshots,
)


async def delete_keys(context: FaultContext) -> FaultOutcome:
    started_s = time.monotonic()
    deleted = await forget_keys(context.server, context.key_prefix)
    recovered_s = await context.wait_for_recovery(started_s)
    return FaultOutcome("redis-flush", recovered_s, context.rebalance_goal_s, f"{deleted} keys deleted")


async def delete_keys_without_agents(context: FaultContext) -> FaultOutcome:
    """No agent has the windows in memory any more: they are rebuilt from the log."""
    agents = context.stop_all()
    deleted = await forget_keys(context.server, context.key_prefix)
    recovered_s = await context.wait_for_recovery(context.start_all(agents))
    return FaultOutcome("redis-flush-agents-kill", recovered_s, RESTART_GOAL_S, f"{deleted} keys deleted")


async def delete_keys_then_kill(context: FaultContext) -> FaultOutcome:
    """Every key vanishes, and the agents die before or while they store them again."""
    deleted = await forget_keys(context.server, context.key_prefix)
    await asyncio.sleep(context.random.uniform(0, 1.5))
    recovered_s = await context.wait_for_recovery(await context.kill_all())
    return FaultOutcome("redis-flush-then-kill", recovered_s, RESTART_GOAL_S, f"{deleted} keys deleted")


async def reject_output(stream: str, name: str, context: FaultContext) -> FaultOutcome:
    """Agents exit, are restarted and exit again until the topic accepts messages."""
    topic = context.names.outputs[stream]
    starts = sum(agent.starts for agent in context.fleet)
    await configure_topic(context.cluster, topic, {"max.message.bytes": "1"})
    try:
        await asyncio.sleep(context.random.uniform(1, 4))
    finally:
        await configure_topic(context.cluster, topic, {})
    restarts = sum(agent.starts for agent in context.fleet) - starts
    recovered_s = await context.wait_for_recovery(time.monotonic())
    return FaultOutcome(name, recovered_s, RESTART_GOAL_S, f"{restarts} restarts of agents")


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


async def disconnect_redis(context: FaultContext) -> FaultOutcome:
    """Every connection is closed, several times."""
    started_s = time.monotonic()
    for _ in range(3):
        await disconnect_clients(context.server)
        await asyncio.sleep(context.random.uniform(0.1, 0.6))
    return FaultOutcome("redis-disconnect", await context.wait_for_recovery(started_s), context.rebalance_goal_s)


async def demote_redis(context: FaultContext) -> FaultOutcome:
    """As seen from a client that stays connected to the old master after a fail-over: READONLY."""
    async with read_only(context.server):
        await asyncio.sleep(context.random.uniform(1, 3))
    return FaultOutcome("redis-readonly", await context.wait_for_recovery(time.monotonic()), context.rebalance_goal_s)


async def fail_to_persist(context: FaultContext) -> FaultOutcome:
    """Redis cannot write its snapshot, as with a full disk, and refuses every write: MISCONF."""
    async with refuse_snapshots(context.server):
        await asyncio.sleep(context.random.uniform(2, 4))
    return FaultOutcome("redis-disk-full", await context.wait_for_recovery(time.monotonic()), context.rebalance_goal_s)


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
