"""The Kafka source and sink on a real broker: the contracts, and what only a group can do."""

import asyncio
from collections.abc import Callable, Collection, Sequence

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from connectors.append_log import Entry
from connectors.base import Source
from connectors.errors import ConnectorError
from connectors.kafka.admin import COMPACTED, TopicPlan, configure_topic, ensure_topics, existing_topics
from connectors.kafka.cluster import Cluster
from connectors.kafka.compacted_log import CompactedLog
from connectors.kafka.sink import Delivery, KafkaSink
from connectors.kafka.source import KafkaSource, Subscription
from connectors.records import DEAD_LETTERS, EVENTS, STATES, Batch, Message, Partition, Position
from tests.conftest import KafkaFactory
from tests.contracts.sink import SinkContract
from tests.contracts.source import SourceContract, Watcher, started
from tests.support.services.kafka import Broker
from tests.support.tls_connections import connections_closed


class SourceWorld:
    def __init__(self, kafka: Broker, topic: str) -> None:
        self.kafka, self.topic = kafka, topic
        self.filled = False

    async def open(self) -> KafkaSource:
        if not self.filled:
            await fill(self.kafka, self.topic)
            self.filled = True
        quick = Subscription(
            (self.topic,), f"group-{self.topic}", session_ms=6_000, heartbeat_ms=500, rebalance_ms=8_000
        )
        return KafkaSource(Cluster(self.kafka.bootstrap), quick)


async def fill(kafka: Broker, topic: str, *, records: int = 20, partitions: int = 2) -> None:
    kafka.create_topic(topic, partitions)
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
    await producer.start()
    for number in range(records):
        for partition in range(partitions):
            await producer.send(
                topic, b"%d" % number, key=b"pump", partition=partition, headers=[("n", b"x")], timestamp_ms=number + 1
            )
    await producer.stop()


class TestKafkaSource(SourceContract):
    @pytest.fixture
    def world(self, kafka: Broker, topic_name: str) -> SourceWorld:
        return SourceWorld(kafka, topic_name)


class SinkWorld:
    def __init__(self, kafka: Broker, topic: str) -> None:
        self.kafka = kafka
        self.topics = {stream: f"{topic}-{stream}" for stream in (EVENTS, STATES, DEAD_LETTERS)}
        for name in self.topics.values():
            kafka.create_topic(name, 1)

    def open(self) -> KafkaSink:
        return KafkaSink(Cluster(self.kafka.bootstrap), Delivery(self.topics))

    async def stored(self, stream: str) -> list[Message]:
        consumer = AIOKafkaConsumer(
            self.topics[stream], bootstrap_servers=self.kafka.bootstrap, auto_offset_reset="earliest"
        )
        await consumer.start()
        ends = await consumer.end_offsets(consumer.assignment())
        found: list[Message] = []
        while len(found) < sum(ends.values()):
            for records in (await consumer.getmany(timeout_ms=500)).values():
                found += [Message(stream, record.key, record.value, tuple(record.headers)) for record in records]
        await consumer.stop()
        return found


class TestKafkaSink(SinkContract):
    @pytest.fixture
    def world(self, kafka: Broker, topic_name: str) -> SinkWorld:
        return SinkWorld(kafka, topic_name)


async def test_a_commit_stores_its_metadata_for_the_next_owner(kafka: Broker, topic_name: str) -> None:
    world = SourceWorld(kafka, topic_name)
    source, partitions = await started(world)
    await source.commit({partitions[0]: Position(7, "rebuild=3")})
    await source.close()
    other, _ = await started(world)
    assert await other.committed(partitions[0]) == Position(7, "rebuild=3")
    assert await other.committed(partitions[1]) is None
    assert await other.first_offset(partitions[1]) == 0
    await other.close()


async def test_a_second_member_gets_a_share_and_the_first_one_is_revoked(kafka: Broker, topic_name: str) -> None:
    world = SourceWorld(kafka, topic_name)
    watchers = [Watcher(), Watcher()]
    sources = [await world.open() for _ in watchers]
    await sources[0].start(watchers[0])
    await poll_until(sources[:1], lambda: len(watchers[0].partitions) == 2)
    await sources[1].start(watchers[1])
    await poll_until(sources, lambda: [len(watcher.partitions) for watcher in watchers] == [1, 1])
    for source in sources:
        await source.close()


async def test_a_failing_revocation_is_raised_by_the_next_poll(kafka: Broker, topic_name: str) -> None:
    class Broken(Watcher):
        async def revoked(self, partitions: Collection[Partition]) -> None:
            if partitions:
                raise ConnectorError("the windows could not be stored")

    world = SourceWorld(kafka, topic_name)
    broken, other = Broken(), Watcher()
    source = await world.open()
    await source.start(broken)
    await poll_until([source], lambda: len(broken.partitions) == 2)
    second = await world.open()
    await second.start(other)
    with pytest.raises(ConnectorError, match="could not be stored"):
        await poll_until([source, second], lambda: False)
    await source.close()
    await second.close()


async def test_an_unreachable_broker_is_named_in_the_error() -> None:
    cluster = Cluster("127.0.0.1:1")
    source = KafkaSource(cluster, Subscription(("readings",), "group"))
    with pytest.raises(ConnectorError, match=r"127\.0\.0\.1:1"):
        await source.start(Watcher())
    await source.close()
    with pytest.raises(ConnectorError, match=r"127\.0\.0\.1:1"):
        await KafkaSink(cluster, Delivery({EVENTS: "events"})).start()


async def test_sasl_over_tls_works_and_a_wrong_password_is_refused(
    kafka_factory: KafkaFactory, topic_name: str
) -> None:
    broker = kafka_factory(users={"agent": "secret"})
    await asyncio.to_thread(broker.create_topic, topic_name, 1)
    given = {
        "protocol": "SASL_SSL",
        "mechanism": "SCRAM-SHA-256",
        "username": "agent",
        "ca_file": str(broker.authority.certificate),
    }
    cluster = Cluster(broker.sasl_tls_bootstrap, password="secret", **given)
    assert "secret" not in repr(cluster)
    sink = KafkaSink(cluster, Delivery({EVENTS: topic_name}))
    await sink.start()
    await sink.write([Message(EVENTS, b"pump", b"{}")])
    await sink.close()
    source, watcher = KafkaSource(cluster, Subscription((topic_name,), "group")), Watcher()
    await source.start(watcher)
    batches = await poll_until([source], lambda: False, until_records=1)
    assert (batches[0].partition, batches[0].records[0].value) == (Partition(topic_name, 0), b"{}")
    await source.close()
    with pytest.raises(ConnectorError):
        await KafkaSink(Cluster(broker.sasl_tls_bootstrap, password="wrong", **given), Delivery({})).start()
    await connections_closed()


async def poll_until(
    sources: Sequence[Source],
    reached: Callable[[], bool],
    *,
    until_records: int | None = None,
    timeout_s: float = 120.0,
) -> list[Batch]:
    found: list[Batch] = []
    async with asyncio.timeout(timeout_s):
        while not reached() and (until_records is None or len(found) < until_records):
            for source in sources:
                found += await source.poll(max_records=100, timeout_s=0.1)
    return found


async def test_missing_output_topics_are_created_and_a_missing_input_topic_is_named(
    kafka: Broker, topic_name: str
) -> None:
    topics = {stream: f"{topic_name}-{stream}" for stream in (EVENTS, STATES)}
    sink = KafkaSink(Cluster(kafka.bootstrap), Delivery(topics, partitions=2))
    await sink.start()
    await sink.write([Message(EVENTS, b"pump", b"{}")])
    await sink.close()
    source = KafkaSource(Cluster(kafka.bootstrap), Subscription((f"{topic_name}-nowhere",), "group"))
    with pytest.raises(ConnectorError, match=f"no topic {topic_name}-nowhere"):
        await source.start(Watcher())


async def test_a_compacted_log_creates_its_topic_and_is_read_once_by_each_reader(
    kafka: Broker, topic_name: str
) -> None:
    cluster = Cluster(kafka.bootstrap)
    first, second = CompactedLog(cluster, topic_name), CompactedLog(cluster, topic_name)
    await first.start()
    assert await first.read() == []
    await second.start()
    await second.append(b"pumps", b"one")
    [entry] = await first.read()
    assert entry == Entry(Partition(topic_name, 0), 0, b"one")
    assert await first.read() == []
    assert await second.read() == [entry]
    await first.close()
    await second.close()
    await ensure_topics(cluster, [TopicPlan(topic_name, 1)])  # one partition
    await configure_topic(cluster, topic_name, {"cleanup.policy": "delete"})
    with pytest.raises(ConnectorError, match=f"topic {topic_name} must be compacted: .*it is delete"):
        await CompactedLog(cluster, topic_name).start()
    await configure_topic(cluster, topic_name, COMPACTED)
    await first.start()
    await first.close()


async def test_a_topic_with_another_number_of_partitions_is_refused_where_it_matters(
    kafka: Broker, topic_name: str
) -> None:
    cluster = Cluster(kafka.bootstrap)
    await ensure_topics(cluster, [TopicPlan(topic_name, 2)])
    assert topic_name in await existing_topics(cluster)
    await ensure_topics(cluster, [TopicPlan(topic_name, 3, exact=False)])
    with pytest.raises(ConnectorError, match=f"topic {topic_name} has 2 partitions, not 3"):
        await ensure_topics(cluster, [TopicPlan(topic_name, 3)])


async def test_a_topic_that_the_broker_refuses_to_create_is_named_with_the_reason(
    kafka: Broker, topic_name: str
) -> None:
    plan = TopicPlan(topic_name, 1, replication=9, config=COMPACTED)
    wanted = rf"no topic {topic_name}, and it cannot be created \(.+\); create it yourself with cleanup.policy=compact"
    with pytest.raises(ConnectorError, match=wanted):
        await ensure_topics(Cluster(kafka.bootstrap), [plan])
