"""A real Redis or Valkey cluster for tests: three masters, slots that move while clients write, nodes that die."""

from collections.abc import Iterable

import redis
from redis.crc import key_slot

from tests.support.services.members import wait_for
from tests.support.services.ports import free_port_pair
from tests.support.services.redis_members import RedisMembers

NODES = (1, 2, 3)
SLOTS = 16384
BUS_DISTANCE = 10_000  # from a node's port to that of the cluster bus; fixed before Redis 7
KEYS_PER_MIGRATION = 100


class RedisCluster(RedisMembers):
    """Three masters without replicas: a killed node's slots are missing until it is started again.

    With `full_coverage`, the server's default, the other nodes meanwhile refuse all keys with CLUSTERDOWN; without it
    they serve their own slots. A node keeps its data through a restart only when `persistent`.
    """

    def __init__(self, flavour: str = "redis", *, full_coverage: bool = True, persistent: bool = False) -> None:
        super().__init__(flavour, "cluster", {node: free_port_pair(BUS_DISTANCE) for node in NODES})
        for node in self.nodes:
            self.configure(node, _settings(full_coverage, persistent))
        self._ids: dict[int, str] = {}
        self._moving: dict[int, tuple[int, int]] = {}

    @property
    def url(self) -> str:
        """Of the first node; cluster clients discover the others."""
        host, port = self.address(self.nodes[0])
        return f"redis://{host}:{port}/0"

    def start(self, *nodes: int) -> None:
        """Returns when the running nodes agree on the slots and, if all of them run, accept every key."""
        super().start(*nodes)
        if not self._ids:
            self._create()
        if self.running == self.nodes:
            wait_for(lambda: all(self._is_ok(node) for node in self.nodes), "cluster_state is ok on every node")
        wait_for(self._agree, "all nodes agree on the owners of the slots")

    def restore(self) -> None:
        """Also finishes the moves that a test has begun."""
        super().restore()
        for slot, (source, target) in list(self._moving.items()):
            self.finish_move(source, target, slot)

    def slot(self, key: str) -> int:
        return key_slot(key.encode())

    def owner(self, slot: int) -> int:
        """As a running node knows it."""
        return self._owners(self.running[0])[slot]

    def slots(self, node: int) -> list[int]:
        return [slot for slot, owner in self._owners(self.running[0]).items() if owner == node]

    def used_slots(self, node: int) -> list[int]:
        """Those of its slots that hold keys."""
        return sorted({self.slot(key) for key in self.ask(node, "KEYS", "*")})

    def move_slots(self, source: int, target: int, slots: Iterable[int]) -> None:
        """Moves the slots with their keys, one after the other, while clients read and write."""
        for slot in slots:
            self.begin_move(source, target, slot)
            self.finish_move(source, target, slot)

    def begin_move(self, source: int, target: int, slot: int) -> None:
        """From now on the source answers ASK for a key that has moved.

        A command with keys on both sides gets TRYAGAIN: from the source or, before Redis 7, from the target.
        """
        self._moving[slot] = (source, target)
        self.ask(target, "CLUSTER SETSLOT", slot, "IMPORTING", self._ids[source])
        self.ask(source, "CLUSTER SETSLOT", slot, "MIGRATING", self._ids[target])

    def move_keys(self, source: int, target: int, slot: int, count: int = KEYS_PER_MIGRATION) -> int:
        """Moves up to `count` keys; returns how many."""
        keys = self.ask(source, "CLUSTER GETKEYSINSLOT", slot, count)
        if keys:
            host, port = self.address(target)
            self.ask(source, "MIGRATE", host, port, "", 0, 5000, "REPLACE", "KEYS", *keys)
        return len(keys)

    def finish_move(self, source: int, target: int, slot: int) -> None:
        """Moves the keys that are left, then the slot, at the target first so that it is never without an owner."""
        while self.move_keys(source, target, slot):
            pass
        others = [node for node in self.running if node not in (source, target)]
        for node in (target, source, *others):
            self.ask(node, "CLUSTER SETSLOT", slot, "NODE", self._ids[target])
        del self._moving[slot]

    def _create(self) -> None:
        share = -(-SLOTS // len(self.nodes))
        for index, node in enumerate(self.nodes):
            self.ask(node, "CLUSTER SET-CONFIG-EPOCH", index + 1)
            self.ask(node, "CLUSTER ADDSLOTS", *range(index * share, min((index + 1) * share, SLOTS)))
        for node in self.nodes[1:]:
            self.ask(node, "CLUSTER MEET", *self.address(self.nodes[0]))
        self._ids = {node: self.ask(node, "CLUSTER MYID") for node in self.nodes}

    def _is_ok(self, node: int) -> bool:
        try:
            return self.ask(node, "CLUSTER INFO")["cluster_state"] == "ok" and len(self._owners(node)) == SLOTS
        except (redis.RedisError, OSError):
            return False

    def _agree(self) -> bool:
        first, *others = [self._owners(node) for node in self.running]
        return all(other == first for other in others)

    def _owners(self, node: int) -> dict[int, int]:
        """Slot to node, as this node knows it."""
        owners = {}
        for first, last, (_, port, *_), *_ in self.ask(node, "CLUSTER SLOTS"):
            owners.update(dict.fromkeys(range(first, last + 1), self.node_at(port)))
        return dict(sorted(owners.items()))


def _settings(full_coverage: bool, persistent: bool) -> list[str]:
    return [
        'save ""',
        f"appendonly {'yes' if persistent else 'no'}",
        "appendfsync always",
        "cluster-enabled yes",
        "cluster-announce-ip 127.0.0.1",
        # After so long without an answer a node counts as failed. A busy machine needs that much.
        "cluster-node-timeout 2000",
        f"cluster-require-full-coverage {'yes' if full_coverage else 'no'}",
    ]
