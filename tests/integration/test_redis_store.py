"""The window store on real Redis and Valkey servers: the contract, and what only a server can do."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent.app import build_pipeline
from agent.cli.main import main
from connectors.base import Checkpoint, RingWrite, WindowStore
from connectors.errors import ConnectorError, TransientError
from connectors.files.rows import to_log_line
from connectors.records import Partition
from connectors.redis.fault_injection import limit_memory
from connectors.redis.inspection import RedisFacts, inspect_redis
from connectors.redis.server import Server
from connectors.redis.window_reader import WindowReader
from connectors.redis.window_store import RedisWindowStore
from tests.conftest import RedisFactory
from tests.contracts.window_store import HERE, WindowStoreContract, checkpoint, opened, whole
from tests.support.offline_plant import load_offline_plant, load_rule, records, write_plant
from tests.support.services.redis import RedisClients
from tests.support.services.redis_binaries import FLAVOURS
from tests.support.tls_connections import connections_closed

LAYOUT = "layout"
Command = Callable[..., tuple[int, str, str]]


class RedisWorld:
    def __init__(self, server: RedisClients, prefix: str) -> None:
        self.server, self.prefix = server, prefix

    def open(self) -> WindowStore:
        return RedisWindowStore(Server(self.server.url), prefix=self.prefix)

    async def lose(self, partition: Partition, asset: str) -> None:
        self.delete(f"{self.prefix}:*:ring:{asset}")

    async def flush(self) -> None:
        self.delete(f"{self.prefix}:*")

    def delete(self, pattern: str) -> None:
        with self.server.connect() as client:
            for key in client.scan_iter(pattern):
                client.delete(key)

    async def backup(self) -> dict[bytes, tuple[int, bytes]]:
        with self.server.connect() as client:
            keys = list(client.scan_iter(f"{self.prefix}:*"))
            return {key: (client.pttl(key), client.dump(key)) for key in keys}

    async def go_back(self, backup: dict[bytes, tuple[int, bytes]]) -> None:
        self.delete(f"{self.prefix}:*")
        with self.server.connect() as client:
            for key, (life_ms, content) in backup.items():
                client.restore(key, life_ms, content)

    def lives_ms(self) -> dict[str, int]:
        with self.server.connect() as client:
            return {key.decode(): client.pttl(key) for key in client.scan_iter(f"{self.prefix}:*")}


class TestRedisWindowStore(WindowStoreContract):
    @pytest.fixture
    def world(self, redis_server: RedisClients, key_prefix: str) -> RedisWorld:
        return RedisWorld(redis_server, key_prefix)

    async def test_every_key_has_a_time_to_live(self, world: RedisWorld) -> None:
        store = await opened(world)
        await store.save(await store.claim(HERE), LAYOUT, checkpoint([whole("a", b"0123")], b"head"))
        await store.close()
        lives = world.lives_ms()
        assert len(lives) == 3
        assert all(0 < life <= 7 * 86_400_000 for life in lives.values())

    async def test_the_ring_of_an_idle_asset_is_renewed_with_its_partition(self, world: RedisWorld) -> None:
        now = 0.0
        store = RedisWindowStore(Server(world.server.url), prefix=world.prefix, ttl_s=100, clock=lambda: now)
        await store.start()
        claim = await store.claim(HERE)
        await store.save(claim, LAYOUT, checkpoint([whole("a", b"0123")], b"one"))
        with world.server.connect() as client:
            for key in client.scan_iter(f"{world.prefix}:*:ring:a"):
                client.pexpire(key, 5_000)
        now = 60.0
        await store.save(claim, LAYOUT, Checkpoint([], b"two", ["a"]))
        await store.close()
        assert min(world.lives_ms().values()) > 50_000

    async def test_an_idle_ring_that_expired_is_reported_as_lost(self, world: RedisWorld) -> None:
        now = 0.0
        store = RedisWindowStore(Server(world.server.url), prefix=world.prefix, ttl_s=100, clock=lambda: now)
        await store.start()
        claim = await store.claim(HERE)
        await store.save(claim, LAYOUT, checkpoint([whole("a", b"0123"), whole("b", b"4567")], b"one"))
        await world.lose(HERE, "b")
        now = 60.0
        assert list(await store.save(claim, LAYOUT, Checkpoint([], b"two", ["a", "b"]))) == ["b"]
        await store.close()

    async def test_many_rings_are_written_in_bounded_chunks_and_read_back(self, world: RedisWorld) -> None:
        store = await opened(world)
        claim = await store.claim(HERE)
        writes = [whole(f"asset-{number}", bytes([number % 251]) * 9_000) for number in range(600)]
        assert list(await store.save(claim, LAYOUT, checkpoint(writes, b"head"))) == []
        stored = await store.load(claim, LAYOUT)
        await store.close()
        assert stored is not None
        assert dict(stored.rings) == {write.asset: write.pieces[0][1] for write in writes}


class Broken(Exception):
    """The process is gone."""


class Listening:
    """A client that records its script calls, and fails at one of them."""

    def __init__(self, client: Any, *, break_at: int | None = None) -> None:
        self._client, self._break_at = client, break_at
        self.calls: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def eval(self, *arguments: Any) -> Any:
        self.calls.append(arguments)
        if len(self.calls) == self._break_at:
            raise Broken
        return await self._client.eval(*arguments)


@pytest.fixture
async def store(redis_server: RedisClients, key_prefix: str) -> AsyncIterator[RedisWindowStore]:
    store = RedisWindowStore(Server(redis_server.url), prefix=key_prefix)
    await store.start()
    yield store
    await store.close()


async def test_rings_without_the_header_that_belongs_to_them_are_not_loaded(store: RedisWindowStore) -> None:
    """A ring that is newer than its header has overwritten what the header's windows need."""
    claim = await store.claim(HERE)
    await store.save(claim, LAYOUT, checkpoint([whole("a", b"0123")], b"one"))
    plain, store._client = store._client, Listening(store._client, break_at=2)
    with pytest.raises(Broken):
        await store.save(claim, LAYOUT, checkpoint([RingWrite("a", 4, ((1, b"x"),))], b"two"))
    store._client = plain
    assert await store.load(await store.claim(HERE), LAYOUT) is None
    claim = await store.claim(HERE)
    await store.save(claim, LAYOUT, checkpoint([whole("a", b"4567")], b"three"))
    stored = await store.load(claim, LAYOUT)
    assert stored is not None
    assert stored.header == b"three"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in this process: its exit code, what it printed and what it warned of."""
    monkeypatch.setattr("agent.logs.set_up_logs", lambda *_, **__: None)  # would take pytest's own handlers away

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["anchormoe-agent", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as left:
            code = int(left.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, " ".join(printed.err.split())

    return run


async def run_agent(plant: Path) -> None:
    """Over a file of records, to its end; the windows are stored on the way out."""
    with capture_logs():
        await build_pipeline(load_offline_plant(plant), load_model=load_rule).run(asyncio.Event())


async def tear(server: RedisClients, prefix: str, asset: str) -> None:
    """What an agent does that dies between the rings and the header of a checkpoint."""
    with server.connect() as client:
        [key] = [key.decode() for key in client.scan_iter(f"{prefix}:*:ring:{asset}")]
        size = client.strlen(key)
    matched = re.search(r"\{(.+:[0-9]+)\}:([^:]+):ring:", key)
    assert matched is not None
    partition, layout = matched.groups()
    topic, _, number = partition.rpartition(":")
    store = RedisWindowStore(Server(server.url), prefix=prefix)
    await store.start()
    plain, store._client = store._client, Listening(store._client, break_at=2)
    claim = await store.claim(Partition(topic, int(number)))
    await store.load(claim, layout)
    store._client.calls.clear()
    with pytest.raises(Broken):
        await store.save(claim, layout, checkpoint([whole(asset, bytes(size))], b"never written"))
    store._client = plain
    await store.close()


def test_a_torn_checkpoint_is_reported_by_the_windows_commands_and_never_shown_as_data(
    redis_server: RedisClients, key_prefix: str, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "records.jsonl").write_bytes(b"".join(map(to_log_line, records(20))))
    plant = write_plant(
        tmp_path,
        source={"kind": "file", "paths": ["records.jsonl"], "format": "log"},
        store={"kind": "redis", "url": redis_server.url, "key_prefix": key_prefix},
    )
    asyncio.run(run_agent(plant))
    code, printed, warned = command("windows", "list", "-c", plant, "--json")
    assert (code, [each["asset"] for each in json.loads(printed)], warned) == (0, ["pump-1", "pump-2"], "")

    asyncio.run(tear(redis_server, f"{key_prefix}:hall", "pump-1"))
    code, printed, warned = command("windows", "list", "-c", plant, "--json")
    assert (code, json.loads(printed)) == (0, [])
    assert "checkpoint of files[0], group pumps, is torn" in warned
    assert "pump-1, pump-2 are rebuilt from the log" in warned
    code, printed, warned = command("windows", "list", "-c", plant, "--group", "pumps")
    assert (code, printed) == (0, "")
    assert "is torn" in warned
    for asset in ("pump-1", "pump-2"):
        code, printed, warned = command("windows", "show", asset, "-c", plant)
        assert (code, printed) == (1, "")
        assert f"error: {asset}: the stored checkpoint of files[0], group pumps, is torn" in warned


async def test_a_checkpoint_that_is_written_while_it_is_read_is_read_again(
    redis_server: RedisClients, key_prefix: str, store: RedisWindowStore
) -> None:
    """The header of before with the rings of after would be data that never was."""
    claim = await store.claim(HERE)
    await store.save(claim, LAYOUT, checkpoint([whole("a", b"0123")], b"one"))

    class Overtaken(Listening):
        async def mget(self, keys: list[str]) -> Any:
            if not self.calls:
                self.calls.append(keys)
                await store.save(claim, LAYOUT, checkpoint([whole("a", b"4567")], b"two"))
            return await self._client.mget(keys)

    reader = WindowReader(Server(redis_server.url), prefix=key_prefix)
    await reader.start()
    plain, reader._client = reader._client, Overtaken(reader._client)
    [found] = [each async for each in reader.checkpoints([LAYOUT])]
    reader._client = plain
    await reader.close()
    assert found.windows is not None
    assert (found.windows.header, dict(found.windows.rings)) == (b"two", {"a": b"4567"})


async def test_a_write_that_arrives_after_a_later_one_changes_nothing(store: RedisWindowStore) -> None:
    """A slow server also runs commands whose caller has timed out, in any order."""
    claim = await store.claim(HERE)
    plain, store._client = store._client, Listening(store._client)
    await store.save(claim, LAYOUT, checkpoint([whole("a", b"0123")], b"one"))
    timed_out = list(store._client.calls)
    await store.save(claim, LAYOUT, checkpoint([whole("a", b"4567")], b"two"))
    for call in timed_out:
        await plain.eval(*call)
    store._client = plain
    found = await store.load(claim, LAYOUT)
    assert found is not None
    assert (found.header, dict(found.rings)) == (b"two", {"a": b"4567"})


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_server_without_memory_is_a_transient_error(
    redis_factory: RedisFactory, key_prefix: str, flavour: str
) -> None:
    server = redis_factory(flavour)
    store = RedisWindowStore(Server(server.url), prefix=key_prefix)
    await store.start()
    claim = await store.claim(HERE)
    async with limit_memory(Server(server.url)):
        with pytest.raises(TransientError, match="memory is full"):
            await store.save(claim, LAYOUT, checkpoint([whole("a", b"0123")], b"head"))
        with pytest.raises(TransientError, match="memory is full"):
            await store.claim(HERE)
    assert list(await store.save(claim, LAYOUT, checkpoint([whole("a", b"0123")], b"head"))) == []
    await store.close()


async def test_a_server_that_evicts_is_refused(redis_factory: RedisFactory, key_prefix: str) -> None:
    server = redis_factory("redis", max_memory="64mb", max_memory_policy="allkeys-lru")
    store = RedisWindowStore(Server(server.url), prefix=key_prefix)
    with pytest.raises(ConnectorError, match="allkeys-lru"):
        await store.start()
    await store.close()


async def test_a_server_that_is_away_is_final_at_the_start_and_transient_later(
    redis_factory: RedisFactory, key_prefix: str
) -> None:
    server = redis_factory("redis")
    store = RedisWindowStore(Server(server.url, timeout_s=1), prefix=key_prefix)
    await store.start()
    claim = await store.claim(HERE)
    server.kill()
    with pytest.raises(TransientError):
        await store.verify(claim)
    with pytest.raises(TransientError):
        await store.save(claim, LAYOUT, Checkpoint([RingWrite("a", 1, ((0, b"x"),))], b"head", ["a"]))
    other = RedisWindowStore(Server(server.url, timeout_s=1), prefix=key_prefix)
    with pytest.raises(ConnectorError, match="cannot reach Redis"):
        await other.start()
    await store.close()
    await other.close()


async def test_windows_survive_kill_and_restart_of_a_persistent_server(
    redis_factory: RedisFactory, key_prefix: str
) -> None:
    server = redis_factory("redis", persistent=True)
    store = RedisWindowStore(Server(server.url), prefix=key_prefix)
    await store.start()
    claim = await store.claim(HERE)
    await store.save(claim, LAYOUT, checkpoint([whole("a", b"0123")], b"head"))
    server.kill()
    server.restart()
    stored = await store.load(claim, LAYOUT)
    await store.close()
    assert stored is not None
    assert dict(stored.rings) == {"a": b"0123"}


def documented_user(password: str, prefix: str) -> str:
    """The ACL user of configs/secured.yaml, as a line of the server's configuration."""
    text = Path("configs/secured.yaml").read_text(encoding="utf-8")
    found = re.search(r"#\s+user (anchormoe on >… .+)", text)
    assert found is not None
    return found[1].replace(">…", f">{password}").replace("~anchormoe:*", f"~{prefix}:*")


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_the_documented_acl_user_can_do_everything_the_agent_does_and_nothing_else(
    redis_factory: RedisFactory, key_prefix: str, flavour: str, caplog: pytest.LogCaptureFixture
) -> None:
    tls = flavour == "redis"  # Debian has no Valkey, and the one of the Python package has no TLS
    server = redis_factory(flavour, tls=tls, users=[documented_user("secret", key_prefix)])
    login: dict[str, Any] = {"username": "anchormoe", "password": "secret"}
    login |= {"ca_file": server.client_options["ssl_ca_certs"]} if tls else {}
    store = RedisWindowStore(Server(server.url, **login), prefix=key_prefix)
    await store.start()
    assert caplog.records == []
    claim = await store.claim(HERE)
    await store.verify(claim)
    assert list(await store.save(claim, LAYOUT, checkpoint([whole("a", b"0123"), whole("b", b"4567")], b"one"))) == []
    patch = RingWrite("a", 4, ((1, b"x"),))
    assert list(await store.save(claim, LAYOUT, Checkpoint([patch], b"two", ["a"], forgotten=["b"]))) == []
    await store.close()
    reader = WindowReader(Server(server.url, **login), prefix=key_prefix)
    await reader.start()
    [found] = [each async for each in reader.checkpoints([LAYOUT])]
    await reader.close()
    assert found.windows is not None
    assert dict(found.windows.rings) == {"a": b"0x23"}
    assert isinstance(await inspect_redis(Server(server.url, **login), timeout_s=5), RedisFacts)
    elsewhere = RedisWindowStore(Server(server.url, **login), prefix="elsewhere")
    await elsewhere.start()
    with pytest.raises(ConnectorError, match="permission"):
        await elsewhere.claim(HERE)
    await elsewhere.close()
    wrong = RedisWindowStore(Server(server.url, **(login | {"password": "wrong"})), prefix=key_prefix)
    with pytest.raises(ConnectorError):
        await wrong.start()
    await wrong.close()
    await connections_closed()


async def test_a_login_that_may_not_see_the_eviction_policy_is_told_so(
    redis_factory: RedisFactory, key_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    users = ["blind on >secret ~* +@all -config -info", "informed on >secret ~* +@all -config"]
    server = redis_factory("redis", users=users, max_memory_policy="allkeys-lru")
    blind = RedisWindowStore(Server(server.url, username="blind", password="secret"), prefix=key_prefix)
    await blind.start()
    await blind.close()
    assert "does not show its maxmemory-policy" in caplog.text
    informed = RedisWindowStore(Server(server.url, username="informed", password="secret"), prefix=key_prefix)
    with pytest.raises(ConnectorError, match="allkeys-lru"):
        await informed.start()
    await informed.close()
