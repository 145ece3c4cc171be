"""The window store on a real Redis Cluster and behind real sentinels: slots move, masters change, writes get lost."""

import asyncio
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from agent.app import build_pipeline
from agent.cli.main import main
from agent.runtime.pipeline import Pipeline, PipelineLimits
from connectors.base import WindowStore
from connectors.errors import ConnectorError
from connectors.files.rows import to_log_line
from connectors.memory import MemoryLog, MemorySink
from connectors.records import Partition
from connectors.redis.fault_injection import forget_keys, limit_memory
from connectors.redis.server import Server
from connectors.redis.window_reader import WindowReader
from connectors.redis.window_store import RedisWindowStore
from tests.conftest import RedisFactory
from tests.contracts.window_store import HERE, WindowStoreContract, checkpoint, opened, whole
from tests.support.offline_plant import load_offline_plant, load_rule, records, write_plant
from tests.support.plant import A, B, events_of, pipeline_on, pumps, put, run
from tests.support.services.redis import RedisClients
from tests.support.services.redis_binaries import FLAVOURS
from tests.support.services.redis_cluster import RedisCluster
from tests.support.services.redis_sentinel import RedisSentinel

LAYOUT = "layout"
LIMITS = PipelineLimits(max_records=5, checkpoint_records=10, checkpoint_every_s=0.2, poll_timeout_s=0.02)


def cluster_url(cluster: RedisCluster) -> str:
    return "redis+cluster://" + ",".join(f"{host}:{port}" for host, port in cluster.addresses)


def sentinel_url(servers: RedisSentinel) -> str:
    hosts = ",".join(f"{host}:{port}" for host, port in servers.sentinels.addresses)
    return f"redis+sentinel://{hosts}/{servers.master_name}"


class ClusterWorld:
    def __init__(self, cluster: RedisCluster, prefix: str) -> None:
        self.cluster, self.prefix = cluster, prefix

    def open(self) -> WindowStore:
        return RedisWindowStore(Server(cluster_url(self.cluster)), prefix=self.prefix)

    async def lose(self, partition: Partition, asset: str) -> None:
        self._delete(f"{self.prefix}:*:ring:{asset}")

    async def flush(self) -> None:
        self._delete(f"{self.prefix}:*")

    async def backup(self) -> list[tuple[int, bytes, bytes]]:
        found = []
        for node, client in self._each():
            client.connection_pool.connection_kwargs["decode_responses"] = False
            found += [(node, key, client.dump(key)) for key in client.scan_iter(f"{self.prefix}:*")]
        return found

    async def go_back(self, backup: list[tuple[int, bytes, bytes]]) -> None:
        self._delete(f"{self.prefix}:*")
        for node, client in self._each():
            for owner, key, content in backup:
                if owner == node:
                    client.restore(key, 600_000, content)

    def _delete(self, pattern: str) -> None:
        for _, client in self._each():
            for key in client.scan_iter(pattern):
                client.delete(key)

    def _each(self) -> Iterator[tuple[int, Any]]:
        for node in self.cluster.nodes:
            with self.cluster.connect(node) as client:
                yield node, client


class TestRedisClusterWindowStore(WindowStoreContract):
    @pytest.fixture
    def world(self, redis_cluster: RedisCluster, key_prefix: str) -> ClusterWorld:
        return ClusterWorld(redis_cluster, key_prefix)

    async def test_partitions_of_all_nodes_are_found_and_forgotten(self, world: ClusterWorld) -> None:
        store = await opened(world)
        partitions = [Partition("readings", number) for number in range(16)]
        for each in partitions:
            await store.save(await store.claim(each), LAYOUT, checkpoint([whole("a", b"0123")], b"head"))
        await store.close()
        assert len({world.cluster.owner(world.cluster.slot(f"{{readings:{at}}}")) for at in range(16)}) == 3
        server = Server(cluster_url(world.cluster))
        reader = WindowReader(server, prefix=world.prefix)
        await reader.start()
        found = [each async for each in reader.checkpoints([LAYOUT])]
        await reader.close()
        assert [each.partition for each in found] == partitions
        assert all(each.windows is not None and dict(each.windows.rings) == {"a": b"0123"} for each in found)
        assert await forget_keys(server, world.prefix) == 3 * 16

    async def test_the_memory_of_every_node_can_be_limited(self, world: ClusterWorld) -> None:
        server = Server(cluster_url(world.cluster))
        async with limit_memory(server):
            limits = [int(client.config_get("maxmemory")["maxmemory"]) for _, client in world._each()]
            assert limits == [1, 1, 1]
        assert [int(client.config_get("maxmemory")["maxmemory"]) for _, client in world._each()] == [0, 0, 0]


class World:
    """An agent that is fed while something happens to the servers, and one that takes over from it."""

    def __init__(self, url: str, prefix: str) -> None:
        self._url, self._prefix = url, prefix
        self.log, self.sink = MemoryLog([A, B]), MemorySink()
        self._seconds = 100

    def feed(self, records: int) -> None:
        for second in range(self._seconds, self._seconds + records):
            flow = (1.0 if second % 14 < 7 else -1.0) * second  # each one different
            for asset, partition in (("p1", A), ("p2", A), ("p3", B)):
                put(self.log, asset, second, flow, partition=partition)
        self._seconds += records

    async def run_while(self, something: Callable[[], object]) -> None:
        """Feeds until it is over and everything is committed."""
        pipeline = self._pipeline()
        await pipeline.start()
        try:
            async with asyncio.TaskGroup() as group, asyncio.timeout(120):
                happening = group.create_task(asyncio.to_thread(something))
                while not happening.done() or not await self._committed(pipeline):
                    if not happening.done():
                        self.feed(1)
                    await pipeline.step()
                    await asyncio.sleep(0.01)
        finally:
            await pipeline.close()

    async def take_over(self) -> None:
        """Another agent goes on from what is stored."""
        self.feed(12)
        await self.run_while(lambda: None)

    async def same_as_undisturbed(self) -> bool:
        calm_log = MemoryLog(self.log.partitions)
        for partition in self.log.partitions:
            for record in self.log.read(partition, 0, 1_000_000)[0]:
                calm_log.append(partition, record.value, key=record.key, timestamp_ms=record.timestamp)
        _, calm = await run(calm_log, group=pumps(policy="all"))
        assert len(events_of(calm)) > 20
        return events_of(self.sink) == events_of(calm)

    def _pipeline(self) -> Pipeline:
        store = RedisWindowStore(Server(self._url, timeout_s=2), prefix=self._prefix)
        return pipeline_on(self.log, self.sink, store, group=pumps(policy="all"), limits=LIMITS, bounded=False)

    async def _committed(self, pipeline: Pipeline) -> bool:
        await pipeline.checkpoint()
        positions = {each: self.log.commits.get(each) for each in self.log.partitions}
        return all(at is not None and at.offset == self.log.end_offset(each) for each, at in positions.items())


async def test_slots_that_move_under_load_change_no_event(redis_cluster: RedisCluster, key_prefix: str) -> None:
    world = World(cluster_url(redis_cluster), key_prefix)
    slots = [redis_cluster.slot(f"{{{at.topic}:{at.number}}}") for at in (A, B)]

    def move() -> None:
        for slot in slots * 2:
            source = redis_cluster.owner(slot)
            target = next(node for node in redis_cluster.nodes if node != source)
            redis_cluster.begin_move(source, target, slot)
            redis_cluster.move_keys(source, target, slot, count=2)  # the rest stays behind for a moment
            threading.Event().wait(0.5)
            redis_cluster.finish_move(source, target, slot)

    await world.run_while(move)
    await world.take_over()
    assert await world.same_as_undisturbed()


async def test_a_node_that_comes_back_empty_costs_a_rebuild_and_changes_no_event(
    redis_cluster: RedisCluster, key_prefix: str
) -> None:
    world = World(cluster_url(redis_cluster), key_prefix)
    owner = redis_cluster.owner(redis_cluster.slot(f"{{{A.topic}:{A.number}}}"))
    world.feed(30)

    def kill() -> None:
        redis_cluster.kill(owner)
        redis_cluster.start(owner)

    await world.run_while(kill)
    await world.take_over()
    assert await world.same_as_undisturbed()


async def test_a_fail_over_that_loses_acknowledged_writes_changes_no_event(
    redis_sentinel: RedisSentinel, key_prefix: str
) -> None:
    world = World(sentinel_url(redis_sentinel), key_prefix)
    world.feed(30)
    checkpoints: list[bool] = []

    def fail_over() -> None:
        with redis_sentinel.connect(redis_sentinel.master()) as client:

            def versions() -> set[Any]:
                return {client.hget(key, "version") for key in client.scan_iter(f"{key_prefix}:*:header")}

            before = versions()
            redis_sentinel.fail_over_losing_writes(lambda: checkpoints.append(wait_until(lambda: versions() != before)))

    await world.run_while(fail_over)
    assert checkpoints == [True]
    await world.take_over()
    assert await world.same_as_undisturbed()


def wait_until(reached: Callable[[], bool]) -> bool:
    for _ in range(400):
        if reached():
            return True
        threading.Event().wait(0.05)
    return False


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_behind_one_address_the_store_leaves_a_master_that_became_a_replica(
    redis_factory: RedisFactory, key_prefix: str, flavour: str
) -> None:
    """As with a virtual address or a name: connections to the old server stay open and answer READONLY."""
    old, new = redis_factory(flavour), redis_factory(flavour)
    with forwarding() as (address, lead_to), old.connect() as first, new.connect() as second:
        lead_to(host_and_port(old))
        second.execute_command("REPLICAOF", *host_and_port(old))
        store = RedisWindowStore(Server(f"redis://{address}/0"), prefix=key_prefix)
        await store.start()
        claim = await store.claim(HERE)
        assert await asyncio.to_thread(wait_until, lambda: bool(second.keys(f"{key_prefix}:*")))
        lead_to(host_and_port(new))
        second.execute_command("REPLICAOF", "NO", "ONE")
        first.execute_command("REPLICAOF", *host_and_port(new))
        await store.save(claim, LAYOUT, checkpoint([whole("a", b"0123")], b"head"))
        await store.close()
        assert second.keys(f"{key_prefix}:*:header")


def host_and_port(server: RedisClients) -> tuple[str, int]:
    parts = urlsplit(server.url)
    return str(parts.hostname), int(parts.port or 0)


@contextmanager
def forwarding() -> Iterator[tuple[str, Callable[[tuple[str, int]], None]]]:
    """An address that leads to a server; connections that are open stay with the one they have reached."""
    target: list[tuple[str, int]] = []
    listener = socket.create_server(("127.0.0.1", 0))
    sockets: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)

    def accept() -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection(target[-1])
            sockets.extend((near, far))
            for pair in ((near, far), (far, near)):
                threads.append(threading.Thread(target=copy, args=pair))
                threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}", target.append
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for each in sockets:
            hang_up(each)
        for thread in threads:
            thread.join()


def hang_up(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()


async def test_a_cluster_behind_a_plain_address_is_named_with_the_remedy(
    redis_cluster: RedisCluster, key_prefix: str
) -> None:
    store = RedisWindowStore(Server(redis_cluster.url), prefix=key_prefix)
    await store.start()
    elsewhere = next(
        Partition("readings", number)
        for number in range(16)
        if redis_cluster.owner(redis_cluster.slot(f"{{readings:{number}}}")) != redis_cluster.nodes[0]
    )
    with pytest.raises(ConnectorError, match=r"a node of a Redis Cluster; use redis\+cluster://"):
        await store.claim(elsewhere)
    await store.close()


async def test_a_plain_server_behind_a_cluster_address_is_named_with_the_remedy(redis_server: RedisClients) -> None:
    address = redis_server.url.removeprefix("redis://").removesuffix("/0")
    store = RedisWindowStore(Server(f"redis+cluster://{address}"))
    with pytest.raises(ConnectorError, match="not a node of a Redis Cluster; use redis://"):
        await store.start()
    await store.close()


async def test_an_unknown_master_and_a_server_that_is_no_sentinel_are_named(
    redis_sentinel: RedisSentinel,
) -> None:
    wrong_name = Server(sentinel_url(redis_sentinel).replace(redis_sentinel.master_name, "nobody"), attempts=1)
    host, port = redis_sentinel.master_address()
    no_sentinel = Server(f"redis+sentinel://{host}:{port}/anchormoe", attempts=1)
    for server, reason in ((wrong_name, "No master found for 'nobody'"), (no_sentinel, "unknown command")):
        store = RedisWindowStore(server)
        with pytest.raises(ConnectorError, match=reason):
            await store.start()
        await store.close()


def test_the_windows_of_an_agent_on_a_cluster_are_listed(
    redis_cluster: RedisCluster,
    key_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "records.jsonl").write_bytes(b"".join(map(to_log_line, records(20))))
    plant = write_plant(
        tmp_path,
        source={"kind": "file", "paths": ["records.jsonl"], "format": "log"},
        store={"kind": "redis", "url": cluster_url(redis_cluster), "key_prefix": key_prefix},
    )
    with capture_logs():
        asyncio.run(build_pipeline(load_offline_plant(plant), load_model=load_rule).run(asyncio.Event()))
    monkeypatch.setattr("agent.logs.set_up_logs", lambda *_, **__: None)  # would take pytest's own handlers away
    monkeypatch.setattr("sys.argv", ["anchormoe-agent", "windows", "list", "-c", str(plant), "--json"])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert [each["asset"] for each in json.loads(capsys.readouterr().out)] == ["pump-1", "pump-2"]


def documented(what: str) -> list[str]:
    """The rights after these words in configs/secured.yaml."""
    found = re.search(re.escape(what) + r".*?((?: [+~-][@a-z|:*]+)+)", Path("configs/secured.yaml").read_text("utf-8"))
    assert found is not None
    return found[1].split()


async def test_the_documented_acl_user_is_enough_for_a_cluster(redis_cluster: RedisCluster, key_prefix: str) -> None:
    own = [
        right.replace("~anchormoe:", f"~{key_prefix}:") for right in documented("user anchormoe on >… resetchannels")
    ]
    rights = ["reset", "on", ">secret", *own, *documented("A Redis Cluster also needs:")]
    for node in redis_cluster.nodes:
        redis_cluster.ask(node, "ACL SETUSER", "limited", *rights)
    server = Server(cluster_url(redis_cluster), username="limited", password="secret")
    store = RedisWindowStore(server, prefix=key_prefix)
    await store.start()
    for number in range(8):
        claim = await store.claim(Partition("readings", number))
        await store.save(claim, LAYOUT, checkpoint([whole("a", b"0123")], b"head"))
    slot = redis_cluster.slot("{readings:0}")
    source = redis_cluster.owner(slot)
    target = next(node for node in redis_cluster.nodes if node != source)
    redis_cluster.begin_move(source, target, slot)
    while redis_cluster.move_keys(source, target, slot):
        pass
    await store.verify(await store.claim(Partition("readings", 0)))  # where it is by now: ASK
    redis_cluster.finish_move(source, target, slot)
    await store.close()
    reader = WindowReader(server, prefix=key_prefix)
    await reader.start()
    assert len([each async for each in reader.checkpoints([LAYOUT])]) == 8
    await reader.close()


async def test_sentinels_have_a_login_of_their_own(redis_sentinel_factory: Any, key_prefix: str) -> None:
    servers = redis_sentinel_factory()
    servers.ask(servers.master(), "ACL SETUSER", "agent", "reset", "on", ">for-the-server", "~*", "+@all")
    for sentinel in servers.sentinels.nodes:
        rights = documented("The user of the sentinels")
        servers.sentinels.ask(sentinel, "ACL SETUSER", "agent", "reset", "on", ">for-the-sentinel", *rights)
        servers.sentinels.ask(sentinel, "ACL SETUSER", "default", "resetpass", ">unknown")
    given: dict[str, Any] = {"username": "agent", "password": "for-the-server", "attempts": 1}
    url = sentinel_url(servers)
    right = Server(url, **given, sentinel_username="agent", sentinel_password="for-the-sentinel")
    store = RedisWindowStore(right, prefix=key_prefix)
    await store.start()
    await store.verify(await store.claim(HERE))
    await store.close()
    assert "for-the-s" not in repr(right)
    store = RedisWindowStore(Server(url, **given), prefix=key_prefix)
    with pytest.raises(ConnectorError):
        await store.start()
    await store.close()
