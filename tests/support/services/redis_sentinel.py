"""A real Redis or Valkey with Sentinel for tests: the master dies, a replica is promoted, writes are lost."""

import secrets
from collections.abc import Callable

import redis

from tests.support.services.members import wait_for
from tests.support.services.ports import free_port
from tests.support.services.redis_members import RedisMembers

SENTINELS = (1, 2, 3)
QUORUM = 2
# Twice the period of the pings: a sentinel first pings a new master a second after the fail-over, and with less time
# would count it as down at that moment.
DOWN_AFTER_MS = 2000
_USER, _PASSWORD = "replication", "replication-secret"


class RedisSentinel(RedisMembers):
    """One master and its replicas; `sentinels` are the three processes that watch them.

    Nothing is kept on disk: a restarted server copies the master's data.
    """

    def __init__(self, flavour: str = "redis", *, replicas: int = 1) -> None:
        super().__init__(flavour, "server", {node: free_port() for node in range(1, replicas + 2)})
        self.master_name = "anchormoe"
        self.sentinels = RedisMembers(flavour, "sentinel", {node: free_port() for node in SENTINELS}, ["--sentinel"])
        self._configure_sentinels()
        self._watched = False  # by the sentinels, which start after the servers

    def start(self, *nodes: int) -> None:
        """Returns when every running replica holds what the master holds.

        A server starts as a replica of the current master; the sentinels would need some ten seconds to make it one.
        When no server is running, the last master starts again, empty.
        """
        if self._watched:
            self.sentinels.start()
        master = self.master() if self.running else self._last_master()
        for node in [node for node in nodes or self.nodes if self.pid(node) is None]:
            self.configure(node, self._lines(node, master))
        super().start(*nodes)
        self.sentinels.start()
        self._watched = True
        self._wait_until_whole()

    def restore(self) -> None:
        self.sentinels.resume()
        super().restore()

    def close(self) -> None:
        super().close()
        self.sentinels.close()

    def master(self) -> int:
        """Waits until all running sentinels name the same server, and it is running as a master."""
        return wait_for(self._agreed_master, "the sentinels agree on a running master")

    def master_address(self) -> tuple[str, int]:
        return self.address(self.master())

    def fail_over(self) -> int:
        """Kills the master and returns the node that was promoted. The old master stays down until it is started."""
        self.kill(self.master())
        return self.master()

    def fail_over_losing_writes(self, write: Callable[[], object]) -> int:
        """Like `fail_over`, after calling `write`, whose writes the master acknowledges and no replica receives."""
        self.pause_replication()
        write()
        return self.fail_over()

    def pause_replication(self) -> None:
        """From now on the master acknowledges writes that no replica receives.

        A replica paused by SIGSTOP would later read from its socket what the master has sent, so the master
        disconnects the replicas and disables their user. Fail over within ten times `DOWN_AFTER_MS`: the sentinels do
        not promote a replica that has been disconnected for longer.
        """
        master = self.master()
        self._wait_until_whole()
        self.ask(master, "ACL SETUSER", _USER, "off")
        self.ask(master, "CLIENT KILL", "TYPE", "replica")
        wait_for(lambda: not self._received(master), "no replica is connected")

    def resume_replication(self) -> None:
        self.ask(self.master(), "ACL SETUSER", _USER, "on")
        self._wait_until_whole()

    def _last_master(self) -> int:
        named = self._named_by(self.sentinels.nodes[0]) if self._watched else None
        return named or self.nodes[0]

    def _agreed_master(self) -> int | None:
        named = {self._named_by(sentinel) for sentinel in self.sentinels.running}
        if len(named) != 1 or not (node := named.pop()) or node not in self.running:
            return None
        try:
            return node if self.ask(node, "ROLE")[0] == "master" else None
        except (redis.RedisError, OSError):
            return None

    def _named_by(self, sentinel: int) -> int | None:
        try:
            address = self.sentinels.ask(sentinel, "SENTINEL GET-MASTER-ADDR-BY-NAME", self.master_name)
        except (redis.RedisError, OSError):
            return None
        return self.node_at(int(address[1])) if address else None

    def _wait_until_whole(self) -> None:
        """Until every running replica has what the master holds now; clients may go on writing."""
        master = self.master()
        _, written, _ = self.ask(master, "ROLE")
        others = [node for node in self.running if node != master]

        def whole() -> bool:
            received = self._received(master)
            return all(received.get(node, -1) >= written for node in others)

        wait_for(whole, "every replica holds what the master holds")

    def _received(self, master: int) -> dict[int, int]:
        """Connected replica to the offset that it has acknowledged; they do so once a second."""
        _, _, replicas = self.ask(master, "ROLE")
        return {self.node_at(int(port)): int(offset) for _, port, offset in replicas}

    def _lines(self, node: int, master: int) -> list[str]:
        host, port = self.address(master)
        return [
            'save ""',
            "appendonly no",
            "repl-diskless-sync yes",
            "repl-diskless-sync-delay 0",
            "repl-ping-replica-period 1",
            f"user {_USER} on >{_PASSWORD} +psync +replconf +ping",
            f"masteruser {_USER}",
            f"masterauth {_PASSWORD}",
            *([] if node == master else [f"replicaof {host} {port}"]),
        ]

    def _configure_sentinels(self) -> None:
        """Lists all servers and sentinels in each file, because discovering them takes some ten seconds."""
        name, (host, port) = self.master_name, self.address(self.nodes[0])
        ids = {sentinel: secrets.token_hex(20) for sentinel in SENTINELS}
        replicas = [self.address(node) for node in self.nodes[1:]]
        for sentinel in SENTINELS:
            others = [(*self.sentinels.address(other), ids[other]) for other in SENTINELS if other != sentinel]
            lines = [
                f"myid {ids[sentinel]}",
                f"monitor {name} {host} {port} {QUORUM}",
                f"down-after-milliseconds {name} {DOWN_AFTER_MS}",
                f"failover-timeout {name} 2000",  # and no second fail-over within twice that
                *(f"known-replica {name} {host} {port}" for host, port in replicas),
                *(f"known-sentinel {name} {host} {port} {other}" for host, port, other in others),
            ]
            self.sentinels.configure(sentinel, [f"sentinel {line}" for line in lines])
