"""The Kafka broker of the tests: it starts, is killed, restarts, rebalances, and refuses unknown clients."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from tests.conftest import KafkaFactory
from tests.support.services.certificates import Authority
from tests.support.services.java import HOW_TO_GET_KAFKA, Java, choose_java
from tests.support.services.kafka import ExistingBroker, KafkaBroker
from tests.support.services.kafka_settings import Ports, server_properties
from tests.support.services.requirements import ServiceUnavailable
from tests.support.tls_connections import connections_closed

PASSWORDS = {"agent": "agent-secret"}
SASL_TLS = {"security_protocol": "SASL_SSL", "sasl_plain_username": "agent", "sasl_plain_password": "agent-secret"}


@asynccontextmanager
async def running(client: Any) -> AsyncIterator[Any]:
    """Stops the client also when its start is refused, which aiokafka leaves to the caller."""
    try:
        await client.start()
        yield client
    finally:
        await client.stop()


async def produce(bootstrap: str, topic: str, values: list[bytes], **options: Any) -> None:
    async with running(AIOKafkaProducer(bootstrap_servers=bootstrap, **options)) as producer:
        for value in values:
            await producer.send_and_wait(topic, value)


async def consume(consumer: AIOKafkaConsumer, count: int) -> list[bytes]:
    async with asyncio.timeout(120):
        return [(await consumer.getone()).value for _ in range(count)]


def group_member(bootstrap: str, topic: str, **options: Any) -> AIOKafkaConsumer:
    common = {"group_id": f"group-of-{topic}", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    return AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **{**common, **options})


async def test_what_is_produced_is_consumed_in_order(kafka: KafkaBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name)
    await produce(kafka.bootstrap, topic_name, [b"a", b"b", b"c"])
    async with running(group_member(kafka.bootstrap, topic_name)) as consumer:
        assert await consume(consumer, 3) == [b"a", b"b", b"c"]


async def test_a_topic_has_the_partitions_and_settings_it_was_asked_for(kafka: KafkaBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 3, {"max.message.bytes": "2000"})
    async with running(group_member(kafka.bootstrap, topic_name)) as consumer:
        assert consumer.partitions_for_topic(topic_name) == {0, 1, 2}
    with pytest.raises(KafkaError, match="MessageSizeTooLarge"):
        await produce(kafka.bootstrap, topic_name, [bytes(3000)])


async def test_two_members_share_the_partitions_and_the_last_one_takes_all(kafka: KafkaBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 4)
    quick = {"heartbeat_interval_ms": 200, "session_timeout_ms": 6000}
    async with asyncio.timeout(120), running(group_member(kafka.bootstrap, topic_name, **quick)) as first:
        async with running(group_member(kafka.bootstrap, topic_name, **quick)) as second:
            while not len(first.assignment()) == len(second.assignment()) == 2:
                await first.getmany(timeout_ms=50)
            assert first.assignment().isdisjoint(second.assignment())
        while len(first.assignment()) != 4:
            await first.getmany(timeout_ms=50)


@pytest.mark.slow
async def test_data_and_commits_survive_kill_9_and_a_restart(kafka_factory: KafkaFactory, topic_name: str) -> None:
    broker = kafka_factory()
    broker.create_topic(topic_name)
    await produce(broker.bootstrap, topic_name, [b"a", b"b", b"c"])
    async with running(group_member(broker.bootstrap, topic_name)) as consumer:
        await consume(consumer, 2)
        await consumer.commit({TopicPartition(topic_name, 0): 2})
    first_pid = broker.pid
    broker.kill()
    assert broker.pid is None
    assert not broker.answers()
    broker.restart()
    assert broker.pid != first_pid
    async with running(group_member(broker.bootstrap, topic_name)) as consumer:
        assert await consume(consumer, 1) == [b"c"]


@pytest.mark.slow
async def test_secured_listeners_accept_only_clients_that_authenticate(
    kafka_factory: KafkaFactory, topic_name: str, tmp_path: Path
) -> None:
    broker = kafka_factory(users=PASSWORDS)
    broker.create_topic(topic_name)
    await _accepted_with_password(broker, topic_name)
    await _accepted_with_certificate(broker, topic_name)
    async with running(group_member(broker.bootstrap, topic_name)) as consumer:
        assert await consume(consumer, 4) == [b"PLAIN", b"SCRAM-SHA-256", b"no tls", b"certificate"]
    await _refused(broker.sasl_tls_bootstrap, ssl_context=broker.tls(), **{**SASL_TLS, "sasl_plain_password": "wrong"})
    await _refused(broker.mtls_bootstrap, security_protocol="SSL", ssl_context=broker.tls())
    unknown = Authority(tmp_path).issue("agent")
    await _refused(broker.mtls_bootstrap, security_protocol="SSL", ssl_context=broker.tls(unknown))
    await connections_closed()


async def _accepted_with_password(broker: KafkaBroker, topic: str) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        options = {**SASL_TLS, "sasl_mechanism": mechanism, "ssl_context": broker.tls()}
        await produce(broker.sasl_tls_bootstrap, topic, [mechanism.encode()], **options)
    options = {**SASL_TLS, "security_protocol": "SASL_PLAINTEXT"}
    await produce(broker.sasl_bootstrap, topic, [b"no tls"], **options)


async def _accepted_with_certificate(broker: KafkaBroker, topic: str) -> None:
    known = broker.tls(broker.authority.issue("agent"))
    await produce(broker.mtls_bootstrap, topic, [b"certificate"], security_protocol="SSL", ssl_context=known)


async def _refused(bootstrap: str, **options: Any) -> None:
    with pytest.raises(KafkaError):
        async with asyncio.timeout(120), running(AIOKafkaProducer(bootstrap_servers=bootstrap, **options)):
            pass


def test_without_java_maven_or_docker_the_failure_names_both_ways_and_the_variable() -> None:
    with pytest.raises(ServiceUnavailable) as failure:
        choose_java(has_tools=lambda: False, install=lambda: "no root", docker=lambda: False)
    assert str(failure.value) == f"{HOW_TO_GET_KAFKA}\nno root"
    assert all(word in HOW_TO_GET_KAFKA for word in ("Java 17", "Maven", "Docker", "ANCHORMOE_TEST_KAFKA"))


def test_a_docker_engine_replaces_missing_java(tmp_path: Path) -> None:
    java = choose_java(has_tools=lambda: False, install=lambda: "no root", docker=lambda: True)
    assert java == Java(classpath="/opt/kafka/libs/*", container=True)
    assert java.command(tmp_path, ["kafka.Kafka"], quick_start=True)[:2] == ["docker", "run"]
    assert java.killer(tmp_path) == ["docker", "kill", tmp_path.name]


def test_an_existing_broker_that_does_not_answer_is_a_failure() -> None:
    with pytest.raises(ServiceUnavailable, match=r"ANCHORMOE_TEST_KAFKA=127\.0\.0\.1:9 does not answer"):
        ExistingBroker("127.0.0.1:9").start()


def test_without_users_only_the_plain_listener_is_open(tmp_path: Path) -> None:
    properties = server_properties(tmp_path, Ports(1, 2, 3, 4, 5), security=None)
    assert properties["advertised.listeners"] == "PLAIN://127.0.0.1:1"
    assert properties["listeners"] == "PLAIN://127.0.0.1:1,CONTROLLER://127.0.0.1:2"
