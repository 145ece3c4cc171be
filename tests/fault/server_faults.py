"""Faults that need the servers' processes: lost writes, full disks, elections, fail-overs, resharding, cut links."""

import asyncio
import os
import resource
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from agent.chaos.agent_faults import rebalance
from agent.chaos.agents import AgentProcess, ChaosError, wait_until
from agent.chaos.context import RESTART_GOAL_S, FaultContext
from agent.chaos.fault import Fault
from agent.chaos.log_faults import LOG_REPLACED, begin_segment
from agent.chaos.report import FaultOutcome
from connectors.kafka.group_offsets import GroupOffsets, Offsets
from tests.fault.descriptions import DESCRIPTIONS
from tests.support.hanging_receiver import HangingReceiver
from tests.support.services.kafka import KafkaBroker
from tests.support.services.kafka_cluster import KafkaCluster
from tests.support.services.redis import RedisServer
from tests.support.services.redis_cluster import RedisCluster
from tests.support.services.redis_sentinel import RedisSentinel
from tests.support.services.tcp_proxy import Mode, TcpProxy

_SLOTS_MOVED = 400
_READ_DOOMED_S = 30.0
Act = Callable[[FaultContext], Awaitable[None]]


@dataclass(slots=True)
class Servers:
    """What a round runs on; None for what its profile does not have."""

    broker: KafkaBroker | None = None
    brokers: KafkaCluster | None = None
    redis: RedisServer | None = None
    sentinel: RedisSentinel | None = None
    redis_cluster: RedisCluster | None = None
    proxy: TcpProxy | None = None
    receiver: HangingReceiver | None = None

    def close(self) -> None:
        kafka, redis = (self.broker, self.brokers), (self.redis, self.sentinel, self.redis_cluster)
        for server in (self.proxy, self.receiver, *kafka, *redis):
            if server is not None:
                server.close()


def server_faults(servers: Servers) -> list[Fault]:
    """Those that these servers allow."""
    found: list[Fault] = []
    if servers.redis is not None:
        found += _redis_faults(servers.redis)
    if servers.proxy is not None:
        found += _link_faults(servers.proxy)
    if servers.receiver is not None:
        found += _receiver_faults(servers.receiver)
    if servers.broker is not None:
        found += _broker_faults(servers.broker)
    if servers.brokers is not None:
        found += _brokers_faults(servers.brokers)
    if servers.sentinel is not None:
        found += _sentinel_faults(servers.sentinel)
    if servers.redis_cluster is not None:
        found += _redis_cluster_faults(servers.redis_cluster)
    return found


def _fault(name: str, act: Act, *, goal_s: float | None = None) -> Fault:
    """`act` returns when the failed part is back."""

    async def inject(context: FaultContext) -> FaultOutcome:
        await act(context)
        recovered_s = await context.wait_for_recovery(time.monotonic())
        return FaultOutcome(name, recovered_s, goal_s or context.rebalance_goal_s)

    return Fault(name, DESCRIPTIONS[name], "process", inject)


def _redis_faults(redis: RedisServer) -> list[Fault]:
    async def come_back_older(context: FaultContext) -> None:
        """Acknowledged writes are gone: a snapshot, some checkpoints, kill -9, and the snapshot again."""
        await asyncio.to_thread(redis.save_snapshot)
        await asyncio.sleep(context.random.uniform(0.8, 2))
        await asyncio.to_thread(redis.come_back_with_snapshot)

    async def come_back_older_agents_dead(context: FaultContext) -> None:
        await asyncio.to_thread(redis.save_snapshot)
        await asyncio.sleep(context.random.uniform(0.8, 2))
        agents = context.stop_all()
        await asyncio.to_thread(redis.come_back_with_snapshot)
        context.start_all(agents)

    async def pause(context: FaultContext) -> None:
        await _pause_process(redis.pid, context.random.uniform(1, 4))

    return [
        _fault("redis-older", come_back_older),
        _fault(
            "redis-older-agents-kill",
            come_back_older_agents_dead,
            goal_s=RESTART_GOAL_S,
        ),
        _fault("redis-pause", pause),
    ]


def _link_faults(proxy: TcpProxy) -> list[Fault]:
    def link(mode: Mode) -> Act:
        async def act(context: FaultContext) -> None:
            proxy.set_mode(mode)
            try:
                await asyncio.sleep(context.random.uniform(1, 4))
            finally:
                proxy.set_mode("open")

        return act

    return [
        _fault("redis-link-cut", link("refuse")),
        _fault("redis-link-hangs", link("hang")),
        _fault("redis-link-slow", link("slow")),
    ]


def _receiver_faults(receiver: HangingReceiver) -> list[Fault]:
    async def hang(context: FaultContext) -> None:
        receiver.hang()
        try:
            await asyncio.sleep(context.random.uniform(1, 8))
        finally:
            receiver.answer()

    async def hang_in_rebalance(context: FaultContext) -> FaultOutcome:
        """A further agent joins and leaves while nobody answers the events that the owners must publish first."""
        hanging_s = context.random.uniform(5, 10)
        receiver.hang()
        asyncio.get_running_loop().call_later(hanging_s, receiver.answer)
        try:
            outcome = await rebalance(context)
        finally:
            receiver.answer()
        return replace(outcome, fault="receiver-hangs-rebalance", goal_s=context.rebalance_goal_s + hanging_s)

    return [
        _fault("receiver-hangs", hang),
        Fault("receiver-hangs-rebalance", DESCRIPTIONS["receiver-hangs-rebalance"], "process", hang_in_rebalance),
    ]


def _broker_faults(broker: KafkaBroker) -> list[Fault]:
    async def pause(context: FaultContext) -> None:
        await _pause_process(broker.pid, context.random.uniform(1, 5))

    async def fill_disk(context: FaultContext) -> None:
        """No file of the broker may grow: it loses its log directory and shuts itself down."""
        assert broker.pid is not None
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        await wait_until(lambda: broker.pid is None, 20)
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)

    return [
        _fault("broker-pause", pause),
        _fault("broker-disk-full", fill_disk, goal_s=RESTART_GOAL_S),
    ]


async def _pause_process(pid: int | None, for_s: float) -> None:
    if pid is None:
        raise ChaosError("the server is not running")
    os.killpg(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(for_s)
    finally:
        os.killpg(pid, signal.SIGCONT)


def _brokers_faults(brokers: KafkaCluster) -> list[Fault]:
    async def with_node(context: FaultContext, node: int, down: Callable[[int], None]) -> None:
        await asyncio.to_thread(down, node)
        await asyncio.sleep(context.random.uniform(0, 2))
        await asyncio.to_thread(brokers.restore)

    async def kill_leader(context: FaultContext) -> None:
        node = await asyncio.to_thread(brokers.leader, context.names.input, 0)
        await with_node(context, node, brokers.kill)

    async def kill_events_leader(context: FaultContext) -> None:
        node = await asyncio.to_thread(brokers.leader, context.names.outputs["events"], 0)
        await with_node(context, node, brokers.kill)

    async def change_controller(context: FaultContext) -> None:
        node = await asyncio.to_thread(brokers.controller)
        await with_node(context, node, brokers.stop)

    async def pause_leader(context: FaultContext) -> None:
        node = await asyncio.to_thread(brokers.leader, context.names.input, 0)
        await asyncio.to_thread(brokers.pause, node)
        await asyncio.sleep(context.random.uniform(1, 6))
        await asyncio.to_thread(brokers.restore)

    async def miss_in_sync_replicas(context: FaultContext) -> None:
        """Two of three are down: with `min.insync.replicas` 2 nothing is accepted."""
        down = context.random.sample(brokers.nodes, 2)
        await asyncio.to_thread(brokers.kill, *down)
        await asyncio.sleep(context.random.uniform(1, 3))
        await asyncio.to_thread(brokers.restore)

    async def restart_all(context: FaultContext) -> None:
        """One after the other, as an upgrade of the cluster does."""
        for node in brokers.nodes:
            await asyncio.to_thread(brokers.stop, node)
            await asyncio.to_thread(brokers.start, node)

    return [
        _fault("leader-kill", kill_leader, goal_s=RESTART_GOAL_S),
        _fault("events-leader-kill", kill_events_leader, goal_s=RESTART_GOAL_S),
        _fault("controller-change", change_controller, goal_s=RESTART_GOAL_S),
        _fault("leader-pause", pause_leader, goal_s=RESTART_GOAL_S),
        _fault("min-isr", miss_in_sync_replicas, goal_s=RESTART_GOAL_S),
        _fault("brokers-rolling", restart_all, goal_s=RESTART_GOAL_S),
        Fault(
            "log-cut",
            DESCRIPTIONS["log-cut"],
            "process",
            lambda context: _cut_log(brokers, context),
            breaks_log=True,
        ),
    ]


async def _cut_log(brokers: KafkaCluster, context: FaultContext) -> FaultOutcome:
    """The leader alone takes records, the agents read them; then it dies, and the log ends where the others stopped.

    What the agents published of records that are cut off is of a log that nobody can replay: it belongs to no segment.
    """
    topic, times_ms = context.names.input, dict(context.workload.newest_by_asset)
    await asyncio.to_thread(brokers.wait_until_in_sync, topic)
    await asyncio.to_thread(brokers.isolate_leader, topic, 0)
    await context.workload.burst(100 * len(context.workload.assets))
    stopped = await _stop_agents_unless_read(context)
    committed, events_from = await context.offsets.committed(), await _events_ends(context)
    await asyncio.to_thread(brokers.elect_uncleanly, topic, 0)
    await asyncio.to_thread(brokers.restore)
    await context.workload.reconnect()
    await context.forget_offsets()
    ends = await context.offsets.ends()
    noticeable = any(committed[at] > end for at, end in ends.items())  # nobody may have read what was cut
    context.segment = replace(context.segment, events_from=events_from)
    await begin_segment(context, times_ms, ends, LOG_REPLACED if noticeable else ())
    started_s = context.start_all(stopped)
    note = "the agents were dead" if stopped else ""
    return FaultOutcome("log-cut", await context.wait_for_recovery(started_s), RESTART_GOAL_S, note)


async def _stop_agents_unless_read(context: FaultContext) -> list[AgentProcess]:
    """Those that are dead now: half of the time, and whenever they have not read everything in time."""
    try:
        await context.wait_for_recovery(time.monotonic(), timeout_s=_READ_DOOMED_S)
    except ChaosError:
        return context.stop_all()
    return context.stop_all() if context.random.random() < 0.5 else []


async def _events_ends(context: FaultContext) -> Offsets:
    topic, partitions = context.names.outputs["events"], context.workload.first_partitions
    events = GroupOffsets(context.cluster, topic, context.group, partitions=partitions)
    try:
        return await events.ends()
    finally:
        await events.close()


def _sentinel_faults(sentinel: RedisSentinel) -> list[Fault]:
    async def fail_over(context: FaultContext) -> None:
        await asyncio.to_thread(sentinel.fail_over)
        await asyncio.to_thread(sentinel.start)

    async def fail_over_losing_writes(context: FaultContext) -> None:
        lost_s = context.random.uniform(0.8, 2)
        await asyncio.to_thread(sentinel.fail_over_losing_writes, lambda: time.sleep(lost_s))
        await asyncio.to_thread(sentinel.start)

    async def pause_master(context: FaultContext) -> None:
        """Longer than the sentinels wait: a replica is promoted while the master still has its connections."""
        master = await asyncio.to_thread(sentinel.master)
        await asyncio.to_thread(sentinel.pause, master)
        await asyncio.sleep(context.random.uniform(4, 6))
        await asyncio.to_thread(sentinel.restore)

    return [
        _fault("fail-over", fail_over, goal_s=RESTART_GOAL_S),
        _fault(
            "fail-over-lost-writes",
            fail_over_losing_writes,
            goal_s=RESTART_GOAL_S,
        ),
        _fault("master-pause", pause_master, goal_s=RESTART_GOAL_S),
    ]


def _redis_cluster_faults(cluster: RedisCluster) -> list[Fault]:
    async def reshard(context: FaultContext) -> None:
        """The slots of all keys of the experiment, and some more, move to another master while agents write."""
        source, target = context.random.sample(cluster.nodes, 2)
        slots = await asyncio.to_thread(lambda: cluster.slots(source))
        used = await asyncio.to_thread(lambda: cluster.used_slots(source))
        chosen = [*used, *context.random.sample(slots, min(_SLOTS_MOVED, len(slots)))]
        await asyncio.to_thread(lambda: cluster.move_slots(source, target, dict.fromkeys(chosen)))

    async def kill_node(context: FaultContext) -> None:
        node = context.random.choice(cluster.nodes)
        await asyncio.to_thread(cluster.kill, node)
        await asyncio.sleep(context.random.uniform(0, 2))
        await asyncio.to_thread(cluster.restore)

    async def pause_node(context: FaultContext) -> None:
        node = context.random.choice(cluster.nodes)
        await asyncio.to_thread(cluster.pause, node)
        await asyncio.sleep(context.random.uniform(1, 4))
        await asyncio.to_thread(cluster.restore)

    return [
        _fault("reshard", reshard),
        _fault("redis-node-kill", kill_node, goal_s=RESTART_GOAL_S),
        _fault("redis-node-pause", pause_node),
    ]
