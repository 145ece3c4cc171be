"""A real Kafka cluster for tests: brokers are killed, leaders move, logs are cut, topics are created again."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from aiokafka import TopicPartition
from aiokafka.admin import NewPartitions, NewTopic, RecordsToDelete
from aiokafka.errors import KafkaError, for_code

from tests.support.services.java import LOGGING, find_java
from tests.support.services.java_archive import archive_options
from tests.support.services.kafka import call_admin, random_uuid
from tests.support.services.kafka_metadata import Partition, Topic, active_controller, describe_topic, living_brokers
from tests.support.services.kafka_settings import Ports, as_text, server_properties
from tests.support.services.members import Members, wait_for
from tests.support.services.ports import free_port, is_open
from tests.support.services.processes import ServiceProcess
from tests.support.services.requirements import ServiceUnavailable, run_tool

NODES = (1, 2, 3)
HEAP_MB = 192
Reply = TypeVar("Reply")


class KafkaCluster(Members):
    """Three nodes, each a broker and a controller: elections and new topics need two running nodes.

    Topics are replicated to all three; `create_topic` takes `min.insync.replicas` and
    `unclean.leader.election.enable` like any other topic configuration.
    """

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        self._java = find_java()
        self._ports = {node: Ports(free_port(), free_port(), 0, 0, 0) for node in NODES}
        self._topics: dict[str, dict[str, str]] = {}
        super().__init__({node: ServiceProcess(f"kafka-{node}") for node in NODES})
        self._format(dict(properties or {}))

    @property
    def bootstrap(self) -> str:
        return ",".join(self.address(node) for node in self.nodes)

    def address(self, node: int) -> str:
        return f"127.0.0.1:{self._ports[node].plain}"

    def start(self, *nodes: int) -> None:
        """Returns when every running node lists all running nodes as alive."""
        super().start(*nodes)
        running = set(self.running)
        wait_for(
            lambda: all(self._living(node) >= running for node in running),
            f"nodes {sorted(running)} list each other as alive",
        )

    def pause(self, *nodes: int) -> None:
        if self._java.container:
            raise ServiceUnavailable("a broker in a container cannot be paused by a signal; install Java and Maven")
        super().pause(*nodes)

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Returns when every running node knows a leader of every partition."""
        topic = NewTopic(name, partitions, len(self.nodes), topic_configs=dict(config or {}))
        answer = self._call(lambda admin: admin.create_topics([topic]))
        _raise_refusals(answer.topic_errors)
        self._topics[name] = topic.topic_configs
        self._wait_for_leaders(name, partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        """Returns when every running node knows a leader of every partition; clients have to refresh."""
        self._call(lambda admin: admin.create_partitions({topic: NewPartitions(total)}))
        self._wait_for_leaders(topic, total)

    def delete_and_recreate_topic(self, name: str) -> None:
        """Same number of partitions, same configuration as given to `create_topic`, no records, another topic id."""
        partitions = len(self._described(name).partitions)
        answer = self._call(lambda admin: admin.delete_topics([name]))
        _raise_refusals(answer.topic_error_codes)
        wait_for(lambda: not any(self._views(name)), f"no running node knows topic {name}")
        self.create_topic(name, partitions, self._topics.get(name))

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Moves the beginning of the log to `before`, as retention does; returns the first offset that is left."""
        place = TopicPartition(topic, partition)
        deletion = {place: RecordsToDelete(before)}
        return int(self._call(lambda admin: admin.delete_records(deletion))[place])

    def topic_id(self, topic: str) -> str:
        return self._described(topic).id

    def leader(self, topic: str, partition: int = 0) -> int:
        """Waits until all running nodes agree on a leader that runs."""
        return wait_for(lambda: self._agreed_leader(topic, partition), f"{topic}[{partition}] has a running leader")

    def in_sync(self, topic: str, partition: int = 0) -> set[int]:
        """As the leader knows it."""
        known = self._view(self.leader(topic, partition), topic)
        return set() if known is None else set(known.partitions[partition].in_sync)

    def controller(self) -> int:
        """Waits until the metadata quorum has a leader that runs."""
        return wait_for(self._active_controller, "the metadata quorum has a running leader")

    def wait_until_in_sync(self, topic: str) -> None:
        """Until every running node lists all replicas of all partitions as in sync."""

        def whole() -> bool:
            partitions = self._partitions(topic)
            return bool(partitions) and all(set(each.in_sync) == set(each.replicas) for each in partitions)

        wait_for(whole, f"all replicas of {topic} are in sync")

    def isolate_leader(self, topic: str, partition: int = 0) -> int:
        """Stops the other nodes, so that the leader is the only in-sync replica; returns the leader.

        With `min.insync.replicas=1` it still accepts every record, and consumers read them. With more it refuses
        `acks=all`. Elections and new topics have to wait until a second node is running.
        """
        leader = self.leader(topic, partition)
        self.stop(*(node for node in self.running if node != leader))
        wait_for(lambda: self.in_sync(topic, partition) == {leader}, f"node {leader} is the only one in sync")
        return leader

    def elect_uncleanly(self, topic: str, partition: int = 0) -> int:
        """After `isolate_leader`: kills the leader and starts the others; returns the one that becomes leader.

        The log then ends where the followers stopped. The old leader truncates its own log when it is started again;
        until then topics without `unclean.leader.election.enable`, such as the consumer offsets, have no leader.
        """
        if self._topics[topic].get("unclean.leader.election.enable") != "true":
            raise RuntimeError(f"topic {topic} was created without unclean.leader.election.enable=true")
        if self.running != [leader := self.leader(topic, partition)]:
            raise RuntimeError(f"call isolate_leader first: nodes {self.running} are running")
        self.kill(leader)
        self.start(*(node for node in self.nodes if node != leader))
        return self.leader(topic, partition)

    def _launch(self, node: int) -> None:
        process = self._processes[node]
        main = ["kafka.Kafka", str(process.directory / "server.properties")]
        archive = archive_options(self._java)
        command = self._java.command(process.directory, main, quick_start=True, heap_mb=HEAP_MB, extra=archive)
        process.launch(command, killer=self._java.killer(process.directory))

    def _answers(self, node: int) -> bool:
        """A node opens its port for clients when the controller has unfenced it."""
        return is_open(self.address(node)) and node in self._living(node)

    def _living(self, node: int) -> set[int]:
        return _try(lambda: living_brokers(self.address(node))) or set()

    def _view(self, node: int, topic: str) -> Topic | None:
        return _try(lambda: describe_topic(self.address(node), node, topic))

    def _views(self, topic: str) -> list[Topic | None]:
        return [self._view(node, topic) for node in self.running]

    def _described(self, topic: str) -> Topic:
        return wait_for(lambda: next(iter(self._views(topic)), None), f"a running node describes {topic}")

    def _partitions(self, topic: str) -> list[Partition]:
        """As every running node describes them, one after the other; empty when one does not know the topic."""
        views = self._views(topic)
        known = [view for view in views if view is not None]
        return [each for view in known for each in view.partitions.values()] if len(known) == len(views) else []

    def _agreed_leader(self, topic: str, partition: int) -> int | None:
        views = self._views(topic)
        leaders = {view.partitions[partition].leader if view else -1 for view in views}
        return leaders.pop() if len(leaders) == 1 and leaders <= set(self.running) else None

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        def led() -> bool:
            known = self._partitions(topic)
            return len(known) == partitions * len(self.running) and all(each.leader >= 0 for each in known)

        wait_for(led, f"all {partitions} partitions of {topic} have leaders")

    def _active_controller(self) -> int | None:
        node = self.running[0]
        controller = _try(lambda: active_controller(self.address(node), node))
        return controller if controller in self.running else None

    def _call(self, request: Callable[[Any], Awaitable[Reply]]) -> Reply:
        # The running nodes only: the client would wait for a paused one.
        bootstrap = ",".join(self.address(node) for node in self.running)
        return _run(lambda: call_admin(bootstrap, request))

    def _format(self, properties: Mapping[str, str]) -> None:
        """One run of Kafka's tool for all nodes: what it writes differs in the meta.properties only."""
        voters = ",".join(f"{node}@127.0.0.1:{ports.controller}" for node, ports in self._ports.items())
        for node, process in self._processes.items():
            shutil.copy(LOGGING, process.directory / LOGGING.name)
            own = server_properties(process.directory, self._ports[node], security=None)
            identity = {"node.id": str(node), "controller.quorum.voters": voters}
            text = as_text({**own, **_REPLICATED, **_QUICK_ELECTION, **properties, **identity})
            (process.directory / "server.properties").write_text(text)
        cluster = random_uuid()
        first, *others = self._processes.values()
        main = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(first.directory / "server.properties")]
        run_tool(self._java.command(first.directory, main, quick_start=True, extra=archive_options(self._java)))
        for node, process in zip(self.nodes[1:], others, strict=True):
            shutil.copytree(first.directory / "data", process.directory / "data")
            meta = {"version": "1", "cluster.id": cluster, "node.id": str(node), "directory.id": random_uuid()}
            (process.directory / "data" / "meta.properties").write_text(as_text(meta))


_REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "auto.leader.rebalance.enable": "false",  # leaders move when a test moves them
}

# A killed leader is replaced when its session expires. Shorter timeouts would expire on a busy machine, too.
_QUICK_ELECTION = {
    "broker.session.timeout.ms": "2500",
    "broker.heartbeat.interval.ms": "400",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.election.backoff.max.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1500",
}


def _run(request: Callable[[], Awaitable[Reply]]) -> Reply:
    """In a thread with its own loop, so that synchronous fixtures and asynchronous tests can both call it."""

    async def call() -> Reply:
        return await request()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(call())).result()


def _try(request: Callable[[], Awaitable[Reply]]) -> Reply | None:
    """None when the node does not answer."""
    try:
        return _run(request)
    except (KafkaError, OSError, TimeoutError):
        return None


def _raise_refusals(topics: Sequence[Sequence[Any]]) -> None:
    for name, code, *_ in topics:
        if code:
            raise for_code(code)(f"topic {name}")
