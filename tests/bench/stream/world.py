"""A broker, a Redis and topics for as long as the bench lasts, and pipelines of real parts between them."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

from agent.events.group import GroupRuntime
from agent.health.loop_delay import measure_loop_delay
from agent.runtime.lifecycle import gc_tuning, run_with_helpers
from agent.runtime.pipeline import Endpoints, Pipeline, PipelineLimits
from connectors.decoding import Decoder
from connectors.kafka.cluster import Cluster
from connectors.kafka.sink import Delivery, KafkaSink
from connectors.kafka.source import KafkaSource, Subscription
from connectors.records import DEAD_LETTERS, EVENTS, STATES
from connectors.redis.server import Server
from connectors.redis.window_store import RedisWindowStore
from tests.bench.stream.bare import Speed
from tests.support.services.kafka import KafkaBroker
from tests.support.services.redis import RedisOptions, RedisServer

Answer = TypeVar("Answer")


class World:
    def __init__(self) -> None:
        self.kafka = KafkaBroker(quick_start=False)
        self.redis = RedisServer("redis", RedisOptions())
        self._numbers = itertools.count()
        self._elsewhere = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        self.kafka.start()
        self.redis.start()

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self._elsewhere.shutdown()
        self.kafka.close()
        self.redis.close()

    async def elsewhere(self, call: Callable[..., Answer], *arguments: Any) -> Answer:
        """In a process of its own, so that it shares neither the interpreter nor the event loop with the agent."""
        return await asyncio.get_running_loop().run_in_executor(self._elsewhere, call, *arguments)

    async def in_thread(self, call: Callable[..., Answer], *arguments: Any, **named: Any) -> Answer:
        """For what runs event loops of its own."""
        return await asyncio.to_thread(call, *arguments, **named)

    def fresh_name(self, name: str) -> str:
        return f"{name}-{next(self._numbers)}"

    @property
    def bootstrap(self) -> str:
        return self.kafka.bootstrap

    def topic(self, name: str) -> str:
        """A fresh one of one partition."""
        topic = self.fresh_name(name)
        self.kafka.create_topic(topic, 1)
        return topic

    def outputs(self) -> dict[str, str]:
        return {stream: self.topic(stream) for stream in (EVENTS, STATES, DEAD_LETTERS)}

    def pipeline(
        self,
        topic: str,
        group: GroupRuntime,
        decoder: Decoder,
        *,
        outputs: dict[str, str],
        limits: PipelineLimits | None = None,
    ) -> Pipeline:
        """Under a name of its own: it begins with the topic's first record and an empty store."""
        cluster, name = Cluster(self.bootstrap), self.fresh_name("bench")
        endpoints = Endpoints(
            source=KafkaSource(cluster, Subscription((topic,), name)),
            store=RedisWindowStore(Server(self.redis.url), prefix=name),
            sink=KafkaSink(cluster, Delivery(outputs)),
        )
        return Pipeline(endpoints, decoder, {group.spec.name: group}, limits or PipelineLimits())


async def speed(pipeline: Pipeline, records: int, *, warm: int = 1) -> Speed:
    """After the first `warm` records until all are in, published, stored and committed."""
    stop = asyncio.Event()
    with gc_tuning():  # as the command does
        task = asyncio.create_task(pipeline.run(stop))
        await passed(pipeline, warm, task)
        before, began, cpu = pipeline.counters.records, time.perf_counter(), time.process_time()
        await passed(pipeline, records, task)
        await pipeline.checkpoint()
        spent_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        stop.set()  # leaving the group takes as long as many records
        await task
    measured = records - before
    return Speed(measured / spent_s, cpu_s / measured)


async def passed(pipeline: Pipeline, records: int, task: "asyncio.Task[None]") -> None:
    """The pipeline under test must not know that it is watched, so this looks from time to time."""
    while pipeline.counters.records < records and not task.done():  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.001)


@asynccontextmanager
async def at_work(pipeline: Pipeline) -> AsyncIterator[None]:
    """From the moment it has its partitions; with the heartbeat that the command has too."""
    stop = asyncio.Event()
    with gc_tuning():
        running = asyncio.create_task(run_with_helpers(pipeline.run(stop), [measure_loop_delay(pipeline.status)]))
        while not pipeline.status.partitions and not running.done():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.05)
        yield
        stop.set()
        await running
