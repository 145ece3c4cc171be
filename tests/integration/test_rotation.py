"""Passwords and certificates that change while an agent's clients are connected: no restart is needed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from connectors.errors import TransientError
from connectors.kafka.cluster import Cluster
from connectors.kafka.sink import Delivery, KafkaSink
from connectors.kafka.source import KafkaSource, Subscription
from connectors.records import EVENTS, Message
from connectors.redis.server import Server
from connectors.redis.window_store import RedisWindowStore
from connectors.secret_files import SecretFile
from tests.conftest import KafkaFactory, RedisFactory
from tests.contracts.source import Watcher
from tests.contracts.window_store import HERE, checkpoint, whole
from tests.support.services.certificates import Authority, Certificate
from tests.support.services.redis import RedisServer
from tests.support.services.redis_binaries import FLAVOURS
from tests.support.tls_connections import connections_closed

LAYOUT = "layout"


def secret_file(path: Path, secret: str) -> SecretFile:
    path.write_text(secret)
    return SecretFile(path, secret)


def hang_up(server: RedisServer) -> None:
    """Every client has to connect again."""
    with server.connect() as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_redis_password_that_changes_is_read_from_its_file(
    redis_factory: RedisFactory, key_prefix: str, tmp_path: Path, flavour: str
) -> None:
    server = redis_factory(flavour, users=["agent on >former ~* +@all"])
    password = secret_file(tmp_path / "password", "former")
    login = Server(server.url, username="agent", password=password, attempts=2, first_pause_s=0.01)
    assert "former" not in repr(login)
    store = RedisWindowStore(login, prefix=key_prefix)
    await store.start()
    claim = await store.claim(HERE)
    with server.connect() as client:
        client.execute_command("ACL", "SETUSER", "agent", "resetpass", ">renewed")
    hang_up(server)
    with pytest.raises(TransientError):  # the server knows the new one already, the file does not
        await store.verify(claim)
    password.path.write_text("renewed")
    await store.verify(claim)
    await store.save(claim, LAYOUT, checkpoint([whole("a", b"0123")], b"head"))
    await store.close()


async def test_a_client_certificate_that_is_renewed_is_used_at_the_next_connection_to_redis(
    redis_factory: RedisFactory, key_prefix: str, tmp_path: Path
) -> None:
    server = redis_factory("redis", tls=True, client_certificates=True)
    place = Certificate(tmp_path / "agent.crt", tmp_path / "agent.key", tmp_path / "unused")

    def renew(by: Certificate) -> None:
        place.certificate.write_bytes(by.certificate.read_bytes())
        place.key.write_bytes(by.key.read_bytes())

    renew(server.authority.issue("first"))
    trust = str(server.authority.certificate)
    files = (trust, str(place.certificate), str(place.key))
    given = Server(server.url, None, None, *files, attempts=2, first_pause_s=0.01)
    store = RedisWindowStore(given, prefix=key_prefix)
    await store.start()
    claim = await store.claim(HERE)
    renew(Authority(tmp_path / "foreign").issue("agent"))
    await store.verify(claim)  # a connection that is open stays so
    hang_up(server)
    with pytest.raises(TransientError):
        await store.verify(claim)
    renew(server.authority.issue("second"))
    await store.verify(claim)
    await store.close()
    await connections_closed()


@pytest.mark.slow
async def test_a_kafka_password_that_changes_is_read_from_its_file(
    kafka_factory: KafkaFactory, topic_name: str, tmp_path: Path
) -> None:
    """Users of PLAIN are in the broker's own settings, so it restarts with others; our clients do not."""
    broker = kafka_factory(users={"agent": "former"})
    await asyncio.to_thread(broker.create_topic, topic_name, 1)
    password = secret_file(tmp_path / "password", "former")
    given: dict[str, Any] = {"mechanism": "PLAIN", "username": "agent", "ca_file": str(broker.authority.certificate)}
    cluster = Cluster(broker.sasl_tls_bootstrap, protocol="SASL_SSL", password=password, **given)
    assert "former" not in repr(cluster)
    sink = KafkaSink(cluster, Delivery({EVENTS: topic_name}, timeout_ms=60_000))
    source = KafkaSource(cluster, Subscription((topic_name,), "group"))
    await sink.start()
    await source.start(Watcher())
    await sink.write([Message(EVENTS, b"pump", b"before")])
    assert await values(source, 1) == [b"before"]
    await asyncio.to_thread(broker.kill)
    broker.change_password("agent", "renewed")
    password.path.write_text("renewed")
    await asyncio.to_thread(broker.restart)
    await sink.write([Message(EVENTS, b"pump", b"after")])
    assert await values(source, 1) == [b"after"]
    await source.close()
    await sink.close()
    await connections_closed()


async def values(source: KafkaSource, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    async with asyncio.timeout(180):
        while len(found) < count:
            for batch in await source.poll(max_records=10, timeout_s=0.2):
                found += [record.value for record in batch.records]
    return found
