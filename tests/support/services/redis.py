"""A real Redis or Valkey server for tests: start, stop, kill -9, restart, with TLS, ACL users and persistence."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from tests.support.services.certificates import Authority, Certificate
from tests.support.services.ports import free_port
from tests.support.services.processes import ServiceProcess
from tests.support.services.redis_binaries import find_binary
from tests.support.services.requirements import ServiceUnavailable

START_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class RedisOptions:
    """What a test may ask of its server beside the flavour."""

    tls: bool = False
    client_certificates: bool = False  # with TLS: refuse clients without one
    persistent: bool = False  # append-only file, synced at every write
    users: Sequence[str] = ()  # ACL lines without the word "user": "agent on >secret ~am:* +@read"
    max_memory: str = "0"
    max_memory_policy: str = "noeviction"


class ExistingRedis:
    """The one named by ANCHORMOE_TEST_REDIS or ANCHORMOE_TEST_VALKEY: used, never stopped or emptied."""

    def __init__(self, address: str) -> None:
        self.url = address if "://" in address else f"redis://{address}/0"
        self.client_options: dict[str, Any] = {}

    def connect(self) -> "redis.Redis":
        """A synchronous connection of the harness; the caller closes it."""
        return redis.Redis.from_url(self.url, socket_timeout=5, **self.client_options)

    def answers(self) -> bool:
        try:
            with self.connect() as client:
                return bool(client.ping())
        except (redis.RedisError, OSError):
            return False

    def start(self) -> None:
        if not self.answers():
            raise ServiceUnavailable(f"the existing server at {self.url} does not answer PING")

    def close(self) -> None:
        """Nothing of it is ours."""


class RedisServer(ExistingRedis):
    """A server of the test's own. The default user stays open to the harness when there are ACL users."""

    def __init__(self, flavour: str, options: RedisOptions | None = None) -> None:
        self.flavour = flavour
        self.options = options or RedisOptions()
        self._binary = find_binary(flavour, self.options.tls)
        self._port = free_port()
        self._process = ServiceProcess(flavour)
        self.authority = Authority(self._process.directory / "certificates")
        scheme = "rediss" if self.options.tls else "redis"
        super().__init__(f"{scheme}://127.0.0.1:{self._port}/0")
        self.client_options = self.trusting(self.authority.issue("harness")) if self.options.tls else {}
        self._settings().write_text("".join(f"{line}\n" for line in self._lines()))

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def trusting(self, client: Certificate | None = None) -> dict[str, Any]:
        """Arguments for `from_url` of a client that trusts this server and, with a certificate, is known to it."""
        options = {"ssl_ca_certs": str(self.authority.certificate)}
        if client is not None:
            options |= {"ssl_certfile": str(client.certificate), "ssl_keyfile": str(client.key)}
        return options

    def start(self) -> None:
        command = [str(self._binary.path), str(self._settings())]
        self._process.launch(command, environment=self._binary.environment)
        self._process.wait_until(self.answers, START_TIMEOUT_S)

    def stop(self) -> None:
        self._process.end(signal.SIGTERM)

    def kill(self) -> None:
        self._process.end(signal.SIGKILL)

    def restart(self) -> None:
        """After `kill` or `stop`, or instead of `stop` and `start`; same port, same directory."""
        self.stop()
        self.start()

    def flush(self) -> None:
        with self.connect() as client:
            client.flushall()

    def close(self) -> None:
        self._process.close()

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
