"""A Redis that loses what it acknowledged, answers late or not at all: the events stay those of an undisturbed run."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
import redis.asyncio
from redis import exceptions

from agent.runtime.pipeline import Pipeline, PipelineLimits
from connectors.errors import ConnectorError, TransientError
from connectors.memory import MemoryLog, MemorySink
from connectors.redis.server import Server
from connectors.redis.window_store import RedisWindowStore
from tests.conftest import RedisFactory
from tests.support.plant import A, B, events_of, pipeline_on, pumps, put, run
from tests.support.services.redis import RedisClients

LIMITS = PipelineLimits(max_records=3, checkpoint_records=4, poll_timeout_s=0.01)


class FaultyServer:
    """What the script calls of all owners meet: states of before, single keys of before, late and lost replies."""

    def __init__(self, url: str, prefix: str, chance: random.Random) -> None:
        self._prefix, self._chance = prefix, chance
        self._server = redis.asyncio.Redis.from_url(url)
        self._history: list[dict[bytes, bytes]] = []
        self._late: list[tuple[Any, ...]] = []
        self.faults = 0

    async def eval(self, *arguments: Any) -> Any:
        kind = self._chance.choices(["run", "late", "no reply"], [20, 1, 1])[0]
        if kind == "late":
            self.faults += 1
            self._late.append(arguments)
            raise exceptions.TimeoutError("late")
        reply = await self._server.eval(*arguments)
        self._history.append(await self._dump())
        if kind == "no reply":
            self.faults += 1
            raise exceptions.TimeoutError("no reply")
        return reply

    async def disturb(self) -> None:
        kind = self._chance.choices(["nothing", "go back", "single keys", "late calls"], [12, 2, 1, 1])[0]
        if kind == "late calls":
            late, self._late = self._late, []
            for arguments in late:
                await self._server.eval(*arguments)
        if kind in ("go back", "single keys") and self._history:
            self.faults += 1
            older = self._history[-min(self._chance.randint(1, 6), len(self._history))]
            single = kind == "single keys"
            await self._restore(
                {key: value for key, value in older.items() if not single or self._chance.random() < 0.5}
            )
            if not single:
                await self._delete((await self._dump()).keys() - older.keys())

    async def close(self) -> None:
        await self._delete((await self._dump()).keys())
        await self._server.aclose()

    async def _dump(self) -> dict[bytes, Any]:
        keys = [key async for key in self._server.scan_iter(f"{self._prefix}:*")]
        return {key: await self._server.dump(key) for key in keys}

    async def _restore(self, keys: dict[bytes, bytes]) -> None:
        for key, value in keys.items():
            await self._server.restore(key, 600_000, value, replace=True)

    async def _delete(self, keys: Any) -> None:
        if keys:
            await self._server.delete(*keys)


class FaultyClient:
    """The client of one owner."""

    def __init__(self, client: Any, server: FaultyServer) -> None:
        self._client, self.eval = client, server.eval

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class FaultyStore(RedisWindowStore):
    def __init__(self, url: str, prefix: str, faults: FaultyServer) -> None:
        super().__init__(Server(url), prefix=prefix)
        self._faults = faults

    async def start(self) -> None:
        await super().start()
        self._client = FaultyClient(self._client, self._faults)


def waves(records: int, chance: random.Random) -> MemoryLog:
    """Three assets in two partitions, with holes, late samples and changes of state."""
    log, second = MemoryLog([A, B]), {"p1": 100, "p2": 100, "p3": 500}
    for _ in range(records):
        asset = chance.choice(sorted(second))
        second[asset] += chance.choice([1, 1, 1, 2, 5, -1])
        flow = chance.choice([1.0, 1.0, None]) if second[asset] % 20 < 10 else -1.0
        put(log, asset, second[asset], flow, partition=B if asset == "p3" else A)
    return log


async def read_to_the_end(pipeline: Pipeline) -> bool:
    lag = await pipeline.lag()
    return lag is not None and not any(lag.values())


async def run_disturbed(log: MemoryLog, sink: MemorySink, url: str, prefix: str, chance: random.Random) -> int:
    """To the end of the log, restarted after every failure and now and then without one: the number of faults."""
    faults = FaultyServer(url, prefix, chance)
    done = False
    while not done:
        store = FaultyStore(url, prefix, faults)
        pipeline = pipeline_on(log, sink, store, group=pumps(policy="all"), limits=LIMITS, bounded=False)
        try:
            await pipeline.start()
            while not done and chance.random() > 0.06:
                await faults.disturb()
                await pipeline.step()
                done = await read_to_the_end(pipeline)
            if done:
                await pipeline.checkpoint()
        except (ConnectorError, TransientError):
            done = False
        finally:
            await pipeline.close()
    await faults.close()
    return faults.faults


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_a_server_loses_the_events_are_those_of_an_undisturbed_run(
    redis_server: RedisClients, key_prefix: str, seed: int
) -> None:
    chance = random.Random(seed)
    log, sink = waves(150, chance), MemorySink()
    faults = await run_disturbed(log, sink, redis_server.url, key_prefix, chance)
    _, calm = await run(log_copy(log), group=pumps(policy="all"))
    assert faults > 3
    assert events_of(sink) == events_of(calm)


def log_copy(log: MemoryLog) -> MemoryLog:
    copied = MemoryLog(log.partitions)
    for partition in log.partitions:
        for record in log.read(partition, 0, 1_000)[0]:
            copied.append(partition, record.value, key=record.key, timestamp_ms=record.timestamp)
    return copied


async def test_a_server_that_restarts_from_its_last_snapshot_gives_no_wrong_state(
    redis_factory: RedisFactory, key_prefix: str
) -> None:
    """Snapshots alone: some checkpoints that were acknowledged are gone after kill -9."""
    server = redis_factory("redis")
    flows = [(1.0 if step % 14 < 7 else -1.0) * (1 + step / 100) for step in range(90)]  # each one different
    log, sink, group = MemoryLog([A, B]), MemorySink(), pumps(policy="all")

    def feed(part: Sequence[float], first: int) -> None:
        for step, flow in enumerate(part, first):
            put(log, "p1", 100 + step, flow)

    async def go_on(pipeline: Pipeline) -> None:
        while not await read_to_the_end(pipeline):
            await pipeline.step()
        await pipeline.checkpoint()

    store = RedisWindowStore(Server(server.url), prefix=key_prefix)
    owner = pipeline_on(log, sink, store, group=group, limits=LIMITS, bounded=False)
    await owner.start()
    feed(flows[:40], 0)
    await go_on(owner)
    with server.connect() as client:
        client.save()
    feed(flows[40:44], 40)
    await go_on(owner)
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.restart)
    feed(flows[44:46], 44)
    await go_on(owner)
    await owner.close()
    feed(flows[46:], 46)
    store = RedisWindowStore(Server(server.url), prefix=key_prefix)
    await pipeline_on(log, sink, store, group=group).run(asyncio.Event())
    _, calm = await run(log_copy(log), group=group)
    assert events_of(sink) == events_of(calm)
