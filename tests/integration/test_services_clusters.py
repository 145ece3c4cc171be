"""The harness's clusters: real Kafka brokers, Redis Cluster and Sentinel, and what happens when their nodes die."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from redis.cluster import RedisCluster as ClusterClient
from redis.sentinel import Sentinel

from tests.support.services.java import Java, find_java
from tests.support.services.java_archive import archive_options
from tests.support.services.kafka_cluster import KafkaCluster
from tests.support.services.members import wait_for
from tests.support.services.redis_binaries import FLAVOURS
from tests.support.services.redis_cluster import RedisCluster
from tests.support.services.redis_sentinel import RedisSentinel

CUTTABLE = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}


async def produce(cluster: KafkaCluster, topic: str, values: list[bytes], **options: Any) -> None:
    """Returns when all are acknowledged: by every in-sync replica, unless the options say otherwise."""
    given = {"acks": "all", "request_timeout_ms": 20_000, **options}
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, **given)
    await producer.start()
    try:
        for value in values:
            await producer.send_and_wait(topic, value, partition=0)
    finally:
        await producer.stop()


async def read(cluster: KafkaCluster, topic: str) -> list[bytes]:
    """What the first partition holds now."""
    place = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, enable_auto_commit=False)
    consumer.assign([place])
    await consumer.start()
    try:
        first, end = (await consumer.beginning_offsets([place]))[place], (await consumer.end_offsets([place]))[place]
        consumer.seek(place, first)
        async with asyncio.timeout(120):
            return [(await consumer.getone()).value for _ in range(end - first)]
    finally:
        await consumer.stop()


def numbered(name: str, count: int) -> list[bytes]:
    return [f"{name}-{index}".encode() for index in range(count)]


@pytest.mark.slow
async def test_a_killed_leader_is_replaced_and_what_all_replicas_acknowledged_survives(
    kafka_cluster: KafkaCluster, topic_name: str
) -> None:
    kafka_cluster.create_topic(topic_name, config={"min.insync.replicas": "2"})
    await produce(kafka_cluster, topic_name, numbered("before", 20))
    leader = kafka_cluster.leader(topic_name)
    kafka_cluster.kill(leader)
    assert kafka_cluster.leader(topic_name) != leader
    await produce(kafka_cluster, topic_name, numbered("after", 5))
    assert await read(kafka_cluster, topic_name) == numbered("before", 20) + numbered("after", 5)
    assert leader not in kafka_cluster.in_sync(topic_name)
    kafka_cluster.start(leader)
    kafka_cluster.wait_until_in_sync(topic_name)
    assert kafka_cluster.in_sync(topic_name) == set(kafka_cluster.nodes)


@pytest.mark.slow
async def test_a_paused_leader_is_replaced_and_follows_when_it_is_resumed(
    kafka_cluster: KafkaCluster, topic_name: str
) -> None:
    kafka_cluster.create_topic(topic_name)
    paused = kafka_cluster.leader(topic_name)
    kafka_cluster.pause(paused)
    assert kafka_cluster.leader(topic_name) != paused
    kafka_cluster.resume(paused)
    kafka_cluster.wait_until_in_sync(topic_name)
    assert kafka_cluster.leader(topic_name) != paused


@pytest.mark.slow
async def test_with_too_few_in_sync_replicas_the_leader_refuses_acks_all(
    kafka_cluster: KafkaCluster, topic_name: str
) -> None:
    kafka_cluster.create_topic(topic_name, config={"min.insync.replicas": "3"})
    kafka_cluster.stop(next(node for node in kafka_cluster.nodes if node != kafka_cluster.leader(topic_name)))
    with pytest.raises(KafkaError, match="NotEnoughReplicas"):
        await produce(kafka_cluster, topic_name, [b"refused"], request_timeout_ms=2000)
    await produce(kafka_cluster, topic_name, [b"acknowledged by the leader alone"], acks=1)
    kafka_cluster.start()
    kafka_cluster.wait_until_in_sync(topic_name)
    await produce(kafka_cluster, topic_name, [b"acknowledged by all"])
    assert await read(kafka_cluster, topic_name) == [b"acknowledged by the leader alone", b"acknowledged by all"]


@pytest.mark.slow
async def test_an_unclean_election_cuts_records_that_were_acknowledged_and_read(
    kafka_cluster: KafkaCluster, topic_name: str
) -> None:
    kafka_cluster.create_topic(topic_name, config=CUTTABLE)
    await produce(kafka_cluster, topic_name, numbered("replicated", 10))
    old = kafka_cluster.isolate_leader(topic_name)
    await produce(kafka_cluster, topic_name, numbered("lost", 7), acks=1)
    assert await read(kafka_cluster, topic_name) == numbered("replicated", 10) + numbered("lost", 7)
    new = kafka_cluster.elect_uncleanly(topic_name)
    assert new != old
    assert await read(kafka_cluster, topic_name) == numbered("replicated", 10)
    await produce(kafka_cluster, topic_name, numbered("other", 3))
    kafka_cluster.start(old)
    kafka_cluster.wait_until_in_sync(topic_name)
    kafka_cluster.stop(new)  # and what the others hold, the old leader among them, is the same
    assert await read(kafka_cluster, topic_name) == numbered("replicated", 10) + numbered("other", 3)


def test_an_unclean_election_is_refused_for_a_topic_that_does_not_allow_it(
    kafka_cluster: KafkaCluster, topic_name: str
) -> None:
    kafka_cluster.create_topic(topic_name)
    with pytest.raises(RuntimeError, match=r"without unclean\.leader\.election\.enable=true"):
        kafka_cluster.elect_uncleanly(topic_name)


@pytest.mark.slow
async def test_a_killed_controller_is_replaced_and_topics_can_be_created(
    kafka_cluster: KafkaCluster, topic_name: str
) -> None:
    old = kafka_cluster.controller()
    kafka_cluster.kill(old)
    assert kafka_cluster.controller() != old
    kafka_cluster.start(old)
    kafka_cluster.create_topic(topic_name)
    await produce(kafka_cluster, topic_name, [b"a"])


async def test_added_partitions_accept_records_and_the_old_ones_keep_theirs(
    kafka_cluster: KafkaCluster, topic_name: str
) -> None:
    kafka_cluster.create_topic(topic_name)
    await produce(kafka_cluster, topic_name, [b"a"])
    kafka_cluster.add_partitions(topic_name, 3)
    producer = AIOKafkaProducer(bootstrap_servers=kafka_cluster.bootstrap)
    await producer.start()
    try:
        assert await producer.partitions_for(topic_name) == {0, 1, 2}
        assert (await producer.send_and_wait(topic_name, b"b", partition=2)).offset == 0
    finally:
        await producer.stop()
    assert await read(kafka_cluster, topic_name) == [b"a"]


async def test_a_recreated_topic_is_empty_and_has_another_id(kafka_cluster: KafkaCluster, topic_name: str) -> None:
    kafka_cluster.create_topic(topic_name, 2, {"max.message.bytes": "2000"})
    await produce(kafka_cluster, topic_name, [b"a", b"b"])
    first_id = kafka_cluster.topic_id(topic_name)
    kafka_cluster.delete_and_recreate_topic(topic_name)
    assert kafka_cluster.topic_id(topic_name) != first_id
    assert await read(kafka_cluster, topic_name) == []
    with pytest.raises(KafkaError, match="MessageSizeTooLarge"):  # the settings are those it had
        await produce(kafka_cluster, topic_name, [bytes(3000)])


async def test_deleted_records_leave_the_rest_at_its_offsets(kafka_cluster: KafkaCluster, topic_name: str) -> None:
    kafka_cluster.create_topic(topic_name)
    await produce(kafka_cluster, topic_name, numbered("record", 10))
    assert kafka_cluster.delete_records(topic_name, 0, before=4) == 4
    assert await read(kafka_cluster, topic_name) == numbered("record", 10)[4:]


def test_a_topic_that_exists_already_is_a_failure(kafka_cluster: KafkaCluster, topic_name: str) -> None:
    kafka_cluster.create_topic(topic_name)
    with pytest.raises(KafkaError, match="TopicAlreadyExists"):
        kafka_cluster.create_topic(topic_name)


def test_every_broker_maps_the_class_archive(kafka_cluster: KafkaCluster) -> None:
    archives = [option.partition("=")[2] for option in archive_options(find_java())]  # none in a container
    for node in kafka_cluster.nodes:
        maps = Path(f"/proc/{kafka_cluster.pid(node)}/maps").read_text()
        assert all(str(Path(archive).resolve()) in maps for archive in archives)


def test_a_broker_in_a_container_has_no_class_archive() -> None:
    assert archive_options(Java(classpath="/opt/kafka/libs/*", container=True)) == []


def test_a_node_of_a_redis_cluster_sends_clients_to_the_owner_of_the_slot(
    redis_cluster: RedisCluster, key_prefix: str
) -> None:
    owner = redis_cluster.owner(redis_cluster.slot(key_prefix))
    stranger = next(node for node in redis_cluster.nodes if node != owner)
    with redis_cluster.connect(stranger) as client, pytest.raises(redis.exceptions.MovedError) as moved:
        client.set(key_prefix, "1")
    assert (moved.value.host, moved.value.port) == redis_cluster.address(owner)
    with cluster_client(redis_cluster) as client:
        assert client.set(key_prefix, "1")


def test_slots_move_with_their_keys_while_a_client_writes(redis_cluster: RedisCluster, key_prefix: str) -> None:
    keys = [f"{{{key_prefix}-{index}}}" for index in range(200)]
    source = redis_cluster.owner(redis_cluster.slot(keys[0]))
    target = next(node for node in redis_cluster.nodes if node != source)
    slots = {redis_cluster.slot(key) for key in keys} & set(redis_cluster.slots(source))
    with cluster_client(redis_cluster) as client, writing(client, keys) as rounds:
        redis_cluster.move_slots(source, target, sorted(slots))
    assert not slots & set(redis_cluster.slots(source))
    assert slots <= set(redis_cluster.slots(target))
    with cluster_client(redis_cluster) as client:
        assert {client.get(key) for key in keys} <= {str(rounds[-1]), str(rounds[-1] - 1)}


def test_a_slot_on_its_way_answers_ask_and_for_keys_on_both_sides_tryagain(
    redis_cluster: RedisCluster, key_prefix: str
) -> None:
    slot = redis_cluster.slot(f"{{{key_prefix}}}")
    source = redis_cluster.owner(slot)
    target = next(node for node in redis_cluster.nodes if node != source)
    keys = [f"{{{key_prefix}}}:{index}" for index in range(2)]
    with redis_cluster.connect(source) as old, redis_cluster.connect(target) as new:
        old.mset(dict.fromkeys(keys, "1"))
        redis_cluster.begin_move(source, target, slot)
        assert redis_cluster.move_keys(source, target, slot, count=1) == 1
        new.execute_command("ASKING")
        with pytest.raises(redis.exceptions.TryAgainError):
            new.mget(keys)
        assert redis_cluster.move_keys(source, target, slot) == 1
        with pytest.raises(redis.exceptions.AskError):
            old.get(keys[0])
        redis_cluster.finish_move(source, target, slot)
        with pytest.raises(redis.exceptions.MovedError):
            old.get(keys[0])
        assert new.mget(keys) == ["1", "1"]


def test_a_move_that_a_test_has_begun_is_finished_before_the_next_test(
    redis_cluster: RedisCluster, key_prefix: str
) -> None:
    slot = redis_cluster.slot(key_prefix)
    source = redis_cluster.owner(slot)
    target = next(node for node in redis_cluster.nodes if node != source)
    with cluster_client(redis_cluster) as client:
        client.set(key_prefix, "1")
        redis_cluster.begin_move(source, target, slot)
        redis_cluster.restore()
        assert redis_cluster.owner(slot) == target
        assert client.get(key_prefix) == "1"


def test_without_one_of_its_nodes_a_redis_cluster_refuses_all_keys(
    redis_cluster: RedisCluster, key_prefix: str
) -> None:
    dead = redis_cluster.owner(redis_cluster.slot(key_prefix))
    redis_cluster.kill(dead)
    with redis_cluster.connect(redis_cluster.running[0]) as client:
        wait_for(lambda: client.execute_command("CLUSTER INFO")["cluster_state"] == "fail", "WHAT")
        with pytest.raises(redis.exceptions.ClusterDownError):
            client.get(key_prefix)
    redis_cluster.start(dead)
    with cluster_client(redis_cluster) as client:
        assert client.set(key_prefix, "1")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_without_full_coverage_the_others_go_on_and_a_persistent_node_keeps_its_data(
    redis_cluster_factory: Any, flavour: str
) -> None:
    cluster = redis_cluster_factory(flavour, full_coverage=False, persistent=True)
    keys = {cluster.owner(cluster.slot(key)): key for key in map(str, range(50))}
    with cluster_client(cluster) as client:
        for key in keys.values():
            client.set(key, "1")
    cluster.kill(1)
    with cluster.connect(2) as client:
        assert client.get(keys[2]) == "1"
    cluster.start(1)
    with cluster.connect(1) as client:
        assert client.get(keys[1]) == "1"


def test_a_fail_over_promotes_the_replica_and_clients_of_the_sentinels_find_it(
    redis_sentinel: RedisSentinel, key_prefix: str
) -> None:
    with through_sentinels(redis_sentinel) as client:
        client.set(f"{key_prefix}:before", "1")
        client.execute_command("WAIT", 1, 5000)
        old = redis_sentinel.master_address()
        new = redis_sentinel.fail_over()
        assert redis_sentinel.master_address() == redis_sentinel.address(new) != old
        client.set(f"{key_prefix}:after", "1")
        assert client.mget(f"{key_prefix}:before", f"{key_prefix}:after") == ["1", "1"]


def test_a_fail_over_loses_exactly_the_writes_that_were_acknowledged_in_between(
    redis_sentinel: RedisSentinel, key_prefix: str
) -> None:
    with redis_sentinel.connect(redis_sentinel.master()) as client:
        for index in range(100):
            client.rpush(key_prefix, f"kept-{index}")
        acknowledged: list[int] = []
        new = redis_sentinel.fail_over_losing_writes(
            lambda: acknowledged.extend(client.rpush(key_prefix, f"lost-{index}") for index in range(100))
        )
    assert acknowledged == list(range(101, 201))
    with redis_sentinel.connect(new) as client:
        assert client.lrange(key_prefix, 0, -1) == [f"kept-{index}" for index in range(100)]


def test_the_old_master_comes_back_as_a_replica_without_what_was_lost(
    redis_sentinel: RedisSentinel, key_prefix: str
) -> None:
    old = redis_sentinel.master()
    with redis_sentinel.connect(old) as client:
        redis_sentinel.fail_over_losing_writes(lambda: client.set(key_prefix, "lost"))
    redis_sentinel.start(old)
    with redis_sentinel.connect(old) as client:
        assert client.execute_command("ROLE")[0] == "slave"
        assert client.get(key_prefix) is None
        with pytest.raises(redis.exceptions.ReadOnlyError):
            client.set(key_prefix, "1")


def test_paused_replication_goes_on_with_all_writes_when_it_is_resumed(
    redis_sentinel: RedisSentinel, key_prefix: str
) -> None:
    master = redis_sentinel.master()
    replica = next(node for node in redis_sentinel.nodes if node != master)
    redis_sentinel.pause_replication()
    with redis_sentinel.connect(master) as writer, redis_sentinel.connect(replica) as reader:
        writer.set(key_prefix, "1")
        assert reader.get(key_prefix) is None
        redis_sentinel.resume_replication()
        assert reader.get(key_prefix) == "1"


def test_with_two_replicas_the_other_one_follows_the_promoted_one(redis_sentinel_factory: Any) -> None:
    servers = redis_sentinel_factory(replicas=2)
    new = servers.fail_over()
    [other] = [node for node in servers.running if node != new]
    with servers.connect(new) as master, servers.connect(other) as replica:
        master.set("a", "1")
        wait_for(lambda: replica.get("a") == "1", "WHAT")


def test_servers_that_all_ended_come_back(redis_sentinel_factory: Any) -> None:
    servers = redis_sentinel_factory()
    servers.kill(*servers.nodes)
    servers.restore()
    with servers.connect(servers.master()) as client:
        assert client.set("a", "1")


@contextmanager
def cluster_client(cluster: RedisCluster) -> Iterator[ClusterClient]:
    client = ClusterClient.from_url(cluster.url, decode_responses=True)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def through_sentinels(servers: RedisSentinel) -> Iterator["redis.Redis"]:
    sentinels = Sentinel(servers.sentinels.addresses, socket_timeout=5)
    try:
        with sentinels.master_for(servers.master_name, decode_responses=True, socket_timeout=5) as client:
            yield client
    finally:
        for sentinel in sentinels.sentinels:
            sentinel.close()


@contextmanager
def writing(client: ClusterClient, keys: list[str]) -> Iterator[list[int]]:
    """Another thread sets all keys to 0, then to 1 and so on, at least twice; gives the numbers it has begun."""
    rounds: list[int] = []
    enough = threading.Event()
    errors: list[Exception] = []

    def write() -> None:
        try:
            while not enough.is_set() or len(rounds) < 2:
                rounds.append(len(rounds))
                for key in keys:
                    client.set(key, rounds[-1])
        except Exception as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield rounds
    finally:
        enough.set()
        writer.join()
    assert not errors
