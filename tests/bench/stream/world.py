"""A broker, a Redis and topics for as long as the bench lasts, and pipelines of real parts between them."""

import asyncio
import itertools
import time

from agent.pipeline import Pace, Pipeline
from agent.watched import Watched
from connectors.decoding import Decoder
from connectors.kafka.cluster import Cluster
from connectors.kafka.sink import Delivery, KafkaSink
from connectors.kafka.source import KafkaSource, Subscription
from connectors.records import DEAD_LETTERS, EVENTS, STATES
from connectors.redis.server import Server
from connectors.redis.window_store import RedisWindowStore
from tests.services.kafka import KafkaBroker
from tests.services.redis import RedisOptions, RedisServer


class World:
    def __init__(self) -> None:
        self.kafka = KafkaBroker(quick_start=False)
        self.redis = RedisServer("redis", RedisOptions())
        self._numbers = itertools.count()
        self.kafka.start()
        self.redis.start()

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.kafka.close()
        self.redis.close()

    @property
    def bootstrap(self) -> str:
        return self.kafka.bootstrap

    def topic(self, name: str) -> str:
        """A fresh one of one partition."""
        topic = f"{name}-{next(self._numbers)}"
        self.kafka.create_topic(topic, 1)
        return topic

    def outputs(self) -> dict[str, str]:
        return {stream: self.topic(stream) for stream in (EVENTS, STATES, DEAD_LETTERS)}

    def pipeline(
        self, topic: str, group: Watched, decoder: Decoder, *, outputs: dict[str, str], pace: Pace | None = None
    ) -> Pipeline:
        """Under a name of its own: it begins with the topic's first record and an empty store."""
        cluster, name = Cluster(self.bootstrap), f"bench-{next(self._numbers)}"
        return Pipeline(
            source=KafkaSource(cluster, Subscription((topic,), name)),
            store=RedisWindowStore(Server(self.redis.url), prefix=name),
            sink=KafkaSink(cluster, Delivery(outputs)),
            decoder=decoder,
            groups={group.name: group},
            pace=pace or Pace(),
        )


async def rate(pipeline: Pipeline, records: int, *, warm: int = 1) -> float:
    """Records per second after the first `warm` ones until all are in, published, stored and committed."""
    stop = asyncio.Event()
    task = asyncio.create_task(pipeline.run(stop))
    await passed(pipeline, warm, task)
    before, began = pipeline.tally.records, time.perf_counter()
    await passed(pipeline, records, task)
    stop.set()
    await task
    return (records - before) / (time.perf_counter() - began)


async def passed(pipeline: Pipeline, records: int, task: "asyncio.Task[None]") -> None:
    """The pipeline under test must not know that it is watched, so this looks from time to time."""
    while pipeline.tally.records < records and not task.done():  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.001)
