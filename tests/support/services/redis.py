"""A real Redis or Valkey server for tests: start, stop, kill -9, restart; TLS, ACL users, persistence on request."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from tests.support.services.certificates import Authority, Certificate
from tests.support.services.ports import free_port
from tests.support.services.processes import ServiceProcess, StartedService
from tests.support.services.redis_binaries import find_binary
from tests.support.services.requirements import ServiceUnavailable

START_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class RedisOptions:
    """Options of a server beside its flavour."""

    tls: bool = False
    client_certificates: bool = False  # with TLS: refuse clients without one
    persistent: bool = False  # append-only file, synced at every write
    users: Sequence[str] = ()  # ACL lines without the word "user": "agent on >secret ~am:* +@read"
    max_memory: str = "0"
    max_memory_policy: str = "noeviction"


class RedisClients:
    """What a test can do with any server, its own or an existing one."""

    def __init__(self, address: str) -> None:
        self.url = address if "://" in address else f"redis://{address}/0"
        self.client_options: dict[str, Any] = {}

    def connect(self) -> "redis.Redis":
        """A synchronous connection; the caller closes it."""
        return redis.Redis.from_url(self.url, socket_timeout=5, **self.client_options)

    def answers(self) -> bool:
        try:
            with self.connect() as client:
                return bool(client.ping())
        except (redis.RedisError, OSError):
            return False


class ExistingRedis(RedisClients):
    """The server at ANCHORMOE_TEST_REDIS or ANCHORMOE_TEST_VALKEY: used, never stopped or emptied."""

    def start(self) -> None:
        if not self.answers():
            raise ServiceUnavailable(f"the existing server at {self.url} does not answer PING")

    def close(self) -> None:
        """It is not ours to stop."""


class RedisServer(StartedService, RedisClients):
    """A server of the test's own. With ACL users, the default user stays open for the test services."""

    def __init__(self, flavour: str, options: RedisOptions | None = None) -> None:
        self.flavour = flavour
        self.options = options or RedisOptions()
        self._binary = find_binary(flavour, self.options.tls)
        self._port = free_port()
        self._process = ServiceProcess(flavour)
        self.authority = Authority(self._process.directory / "certificates")
        scheme = "rediss" if self.options.tls else "redis"
        super().__init__(f"{scheme}://127.0.0.1:{self._port}/0")
        self.client_options = self.trusting(self.authority.issue("tests")) if self.options.tls else {}
        self._settings().write_text("".join(f"{line}\n" for line in self._lines()))

    def trusting(self, client: Certificate | None = None) -> dict[str, Any]:
        """Arguments of `from_url` for a client that trusts this server and, with a certificate, authenticates."""
        options = {"ssl_ca_certs": str(self.authority.certificate)}
        if client is not None:
            options |= {"ssl_certfile": str(client.certificate), "ssl_keyfile": str(client.key)}
        return options

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    def start(self) -> None:
        command = [str(self._binary.path), str(self._settings())]
        self._process.launch(command, environment=self._binary.environment)
        self._process.wait_until(self.answers, START_TIMEOUT_S)

    def save_snapshot(self) -> None:
        """To come back to with `come_back_with_snapshot`."""
        with self.connect() as client:
            client.save()

    def come_back_with_snapshot(self) -> None:
        """kill -9, and a start with the last snapshot: the writes since then were acknowledged and are lost.

        Only without an append-only file, which would win.
        """
        self.kill()
        (self._process.directory / "appendonly.aof").unlink(missing_ok=True)
        self.start()

    def flush(self) -> None:
        with self.connect() as client:
            client.flushall()

    def _settings(self) -> Path:
        return self._process.directory / "server.conf"

    def _lines(self) -> list[str]:
        options = self.options
        append = "yes" if options.persistent else "no"
        lines = ["bind 127.0.0.1", 'save ""', f"dir {self._process.directory}", f"appendonly {append}"]
        lines += ["appendfsync always", f"maxmemory {options.max_memory}"]
        lines += [f"maxmemory-policy {options.max_memory_policy}", *(f"user {line}" for line in options.users)]
        return [*lines, *(self._tls_lines() if options.tls else [f"port {self._port}"])]

    def _tls_lines(self) -> list[str]:
        server = self.authority.issue("server")
        clients = "yes" if self.options.client_certificates else "no"
        files = [f"tls-cert-file {server.certificate}", f"tls-key-file {server.key}"]
        trust = [f"tls-ca-cert-file {self.authority.certificate}", f"tls-auth-clients {clients}"]
        return ["port 0", f"tls-port {self._port}", *files, *trust]
