"""Harm to Redis and Kafka: over their protocols, or to their processes where those are the trial's own."""

import asyncio
import time
from collections.abc import Callable

from agent.chaos.context import AFTER_RESTART_S, FaultContext, ManagedService
from agent.chaos.errors import ChaosError
from agent.chaos.report import FaultOutcome
from connectors.kafka.admin import configure_topic
from connectors.redis.fault_injection import delay_replies, forget_keys, limit_memory


async def flush(ward: FaultContext) -> FaultOutcome:
    begun_s = time.monotonic()
    vanished = await forget_keys(ward.server, ward.prefix)
    return FaultOutcome("redis-flush", await ward.recovered(begun_s), ward.goal_s, f"{vanished} keys")


async def flush_under_dead_agents(ward: FaultContext) -> FaultOutcome:
    """Nobody remembers the windows: they are rebuilt from the log."""
    victims = ward.fleet.living
    for victim in victims:
        victim.wanted = False
        victim.kill()
    vanished = await forget_keys(ward.server, ward.prefix)
    for victim in victims:
        victim.wanted = True
    return FaultOutcome(
        "redis-flush-agents-kill", await ward.recovered(time.monotonic()), AFTER_RESTART_S, f"{vanished} keys"
    )


async def refuse_events(ward: FaultContext) -> FaultOutcome:
    """Agents end, come back and end again, until the topic takes messages."""
    topic = ward.names.outputs["events"]
    starts = sum(agent.starts for agent in ward.fleet)
    await configure_topic(ward.cluster, topic, {"max.message.bytes": "1"})
    try:
        await asyncio.sleep(ward.random.uniform(4, 6))
    finally:
        await configure_topic(ward.cluster, topic, {})
    ended = sum(agent.starts for agent in ward.fleet) - starts
    return FaultOutcome(
        "sink-refuses", await ward.recovered(time.monotonic()), AFTER_RESTART_S, f"agents ended {ended} times"
    )


async def fill_redis(ward: FaultContext) -> FaultOutcome:
    async with limit_memory(ward.server):
        await asyncio.sleep(ward.random.uniform(2, 4))
    return FaultOutcome("redis-full", await ward.recovered(time.monotonic()), ward.goal_s)


async def slow_redis(ward: FaultContext) -> FaultOutcome:
    """Several hold-ups in a row, below and above the time-out of the agents."""
    for _ in range(3):
        hold_s = ward.random.uniform(0.3, 3)
        await delay_replies(ward.server, hold_s)
        await asyncio.sleep(hold_s + 0.2)
    return FaultOutcome("redis-slow", await ward.recovered(time.monotonic()), ward.goal_s)


async def restart_redis(ward: FaultContext) -> FaultOutcome:
    return await _gone_and_back(ward, "redis-restart", ward.services.redis, lambda server: server.stop())


async def kill_redis(ward: FaultContext) -> FaultOutcome:
    return await _gone_and_back(ward, "redis-kill", ward.services.redis, lambda server: server.kill())


async def restart_broker(ward: FaultContext) -> FaultOutcome:
    return await _gone_and_back(ward, "broker-restart", ward.services.broker, lambda server: server.stop())


async def kill_broker(ward: FaultContext) -> FaultOutcome:
    return await _gone_and_back(ward, "broker-kill", ward.services.broker, lambda server: server.kill())


async def _gone_and_back(
    ward: FaultContext, name: str, server: ManagedService | None, end: Callable[[ManagedService], None]
) -> FaultOutcome:
    if server is None:
        raise ChaosError(f"{name}: the server is not the trial's own")
    await asyncio.to_thread(end, server)
    await asyncio.sleep(ward.random.uniform(0, 3))
    await asyncio.to_thread(server.start)
    return FaultOutcome(name, await ward.recovered(time.monotonic()), AFTER_RESTART_S)
