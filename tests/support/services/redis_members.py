"""Redis or Valkey servers that form one system, and connections to each of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.services.members import Members
from tests.support.services.processes import ServiceProcess
from tests.support.services.redis_binaries import find_binary


class RedisMembers(Members):
    """Each node has a port and a configuration file, which the server may rewrite; `arguments` follow the file."""

    def __init__(self, flavour: str, role: str, ports: dict[int, int], arguments: Sequence[str] = ()) -> None:
        self.flavour = flavour
        self._ports = ports
        self._binary = find_binary(flavour, tls=False)
        self._arguments = arguments
        self._clients = {node: self.connect(node) for node in ports}
        super().__init__({node: ServiceProcess(f"{flavour}-{role}-{node}") for node in ports})

    def address(self, node: int) -> tuple[str, int]:
        return "127.0.0.1", self._ports[node]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [self.address(node) for node in self.nodes]

    def node_at(self, port: int) -> int:
        return next(node for node, own in self._ports.items() if own == port)

    def connect(self, node: int) -> "redis.Redis":
        """A synchronous connection to this node alone; the caller closes it."""
        host, port = self.address(node)
        again = Retry(NoBackoff(), retries=1)  # a node that was restarted leaves a dead connection behind
        return redis.Redis(host=host, port=port, socket_timeout=5, decode_responses=True, retry=again)

    def ask(self, node: int, *command: Any) -> Any:
        """Sends a command to this node alone, over a connection of the harness."""
        return self._clients[node].execute_command(*command)

    def configure(self, node: int, lines: Sequence[str]) -> None:
        process = self._processes[node]
        host, port = self.address(node)
        common = [f"bind {host}", f"port {port}", f"dir {process.directory}"]
        self._settings(node).write_text("".join(f"{line}\n" for line in [*common, *lines]))

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        super().close()

    def _launch(self, node: int) -> None:
        command = [str(self._binary.path), str(self._settings(node)), *self._arguments]
        self._processes[node].launch(command, environment=self._binary.environment)

    def _answers(self, node: int) -> bool:
        try:
            return bool(self.ask(node, "PING"))
        except (redis.RedisError, OSError):
            return False

    def _settings(self, node: int) -> Path:
        return self._processes[node].directory / "server.conf"
