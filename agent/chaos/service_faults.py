"""Harm to Redis and Kafka: over their protocols, or to their processes where those are the trial's own."""

import asyncio
import time
from collections.abc import Callable

from agent.chaos.context import AFTER_RESTART_S, OwnedService, Ward
from agent.chaos.errors import TrialError
from agent.chaos.report import Wound
from connectors.kafka.admin import configure_topic
from connectors.redis.fault_injection import forget_keys, hold_answers, without_memory


async def flush(ward: Ward) -> Wound:
    begun_s = time.monotonic()
    vanished = await forget_keys(ward.server, ward.prefix)
    return Wound("redis-flush", await ward.recovered(begun_s), ward.goal_s, f"{vanished} keys")


async def flush_under_dead_agents(ward: Ward) -> Wound:
    """Nobody remembers the windows: they are rebuilt from the log."""
    victims = ward.fleet.living
    for victim in victims:
        victim.wanted = False
        victim.kill()
    vanished = await forget_keys(ward.server, ward.prefix)
    for victim in victims:
        victim.wanted = True
    return Wound("redis-flush-agents-kill", await ward.recovered(time.monotonic()), AFTER_RESTART_S, f"{vanished} keys")


async def refuse_events(ward: Ward) -> Wound:
    """Agents end, come back and end again, until the topic takes messages."""
    topic = ward.names.outputs["events"]
    starts = sum(agent.starts for agent in ward.fleet)
    await configure_topic(ward.cluster, topic, {"max.message.bytes": "1"})
    try:
        await asyncio.sleep(ward.random.uniform(4, 6))
    finally:
        await configure_topic(ward.cluster, topic, {})
    ended = sum(agent.starts for agent in ward.fleet) - starts
    return Wound("sink-refuses", await ward.recovered(time.monotonic()), AFTER_RESTART_S, f"agents ended {ended} times")


async def fill_redis(ward: Ward) -> Wound:
    async with without_memory(ward.server):
        await asyncio.sleep(ward.random.uniform(2, 4))
    return Wound("redis-full", await ward.recovered(time.monotonic()), ward.goal_s)


async def slow_redis(ward: Ward) -> Wound:
    """Several hold-ups in a row, below and above the time-out of the agents."""
    for _ in range(3):
        hold_s = ward.random.uniform(0.3, 3)
        await hold_answers(ward.server, hold_s)
        await asyncio.sleep(hold_s + 0.2)
    return Wound("redis-slow", await ward.recovered(time.monotonic()), ward.goal_s)


async def restart_redis(ward: Ward) -> Wound:
    return await _gone_and_back(ward, "redis-restart", ward.services.redis, lambda server: server.stop())


async def kill_redis(ward: Ward) -> Wound:
    return await _gone_and_back(ward, "redis-kill", ward.services.redis, lambda server: server.kill())


async def restart_broker(ward: Ward) -> Wound:
    return await _gone_and_back(ward, "broker-restart", ward.services.broker, lambda server: server.stop())


async def kill_broker(ward: Ward) -> Wound:
    return await _gone_and_back(ward, "broker-kill", ward.services.broker, lambda server: server.kill())


async def _gone_and_back(
    ward: Ward, name: str, server: OwnedService | None, end: Callable[[OwnedService], None]
) -> Wound:
    if server is None:
        raise TrialError(f"{name}: the server is not the trial's own")
    await asyncio.to_thread(end, server)
    await asyncio.sleep(ward.random.uniform(0, 3))
    await asyncio.to_thread(server.start)
    return Wound(name, await ward.recovered(time.monotonic()), AFTER_RESTART_S)
