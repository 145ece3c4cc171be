"""Rounds of a campaign: on which servers, which faults; one round runs in a process of its own."""

import asyncio
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

from agent.chaos.agents import ChaosError
from agent.chaos.config import ExperimentNames, ExperimentPace
from agent.chaos.context import Services
from agent.chaos.experiment import Experiment, ExperimentSize, plan_faults, run_experiment
from agent.chaos.fault import Fault
from agent.chaos.faults import FAULTS
from agent.chaos.report import FaultOutcome
from agent.errors import SettingsError
from connectors.errors import ConnectorError
from tests.fault.campaign_ledger import Round
from tests.fault.environment_faults import Surroundings, environment_faults
from tests.fault.nursery import Nursery
from tests.fault.release_fault import version_changes
from tests.fault.server_faults import Servers, server_faults
from tests.support.agent_process import PUMPS, Names, write_plant
from tests.support.hanging_receiver import HangingReceiver
from tests.support.services.kafka import KafkaBroker
from tests.support.services.kafka_cluster import KafkaCluster
from tests.support.services.redis import RedisOptions, RedisServer
from tests.support.services.redis_cluster import RedisCluster
from tests.support.services.redis_sentinel import RedisSentinel
from tests.support.services.requirements import ServiceUnavailable
from tests.support.services.tcp_proxy import TcpProxy

Profile = Literal[
    "single", "single-forgetful", "single-sticky", "log", "brokers", "brokers-cut", "sentinel", "redis-cluster"
]
PROFILES: tuple[Profile, ...] = get_args(Profile)
BROKER = {"group.min.session.timeout.ms": "1000"}
MEMBER_TIMEOUT_S = 3.0
SIZE = ExperimentSize(agents=2, partitions=4, assets=6, rate=150.0, pause_s=(0.1, 0.6), spare=1)

_AGENT_FAULTS = [name for name in FAULTS if name.startswith(("agent", "all-agents", "die", "zombie", "rebalance"))]


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """`only`: names of the faults that may be used; empty: all that the profile has."""

    seed: int
    profile: Profile
    count: int
    only: Sequence[str] = ()

    @property
    def forks(self) -> bool:
        """Every twelfth round starts its agents as a supervisor does; the others save the time for more faults."""
        return self.seed % 12 != 0


def plan_rounds(
    count: int, per_round: int, seed: int, only: Sequence[str] = (), profiles: Sequence[Profile] = ()
) -> list[RoundPlan]:
    """Every profile in turn; the single servers, which have most kinds and are the quickest, most often."""
    turn, plans = profiles or _TURN, list[RoundPlan]()
    while count > 0:
        profile = turn[(seed - 1) % len(turn)]
        size = min(count, max(per_round // 2, 1) if profile in _BREAKING else per_round)
        plans.append(RoundPlan(seed, profile, size, only))
        count, seed = count - size, seed + 1
    return plans


_BREAKING = ("log", "brokers-cut")
"""Every break is a comparison of its own."""
_TURN: tuple[Profile, ...] = (
    "single",
    "brokers",
    "log",
    "single-forgetful",
    "sentinel",
    "single",
    "redis-cluster",
    "single-forgetful",
    "log",
)
"""Neither `brokers-cut` nor `single-sticky`: ask for them with --profile."""


def start_servers(profile: Profile) -> Servers:
    """Raises ServiceUnavailable."""
    servers = Servers()
    try:
        if profile in ("brokers", "brokers-cut"):
            servers.brokers = KafkaCluster(BROKER)
            servers.brokers.start()
        else:
            servers.broker = KafkaBroker(properties=BROKER)
            servers.broker.start()
        if profile == "sentinel":
            servers.sentinel = RedisSentinel()
            servers.sentinel.start()
        elif profile == "redis-cluster":
            servers.redis_cluster = RedisCluster(persistent=True)
            servers.redis_cluster.start()
        else:
            servers.redis = RedisServer("redis", RedisOptions(persistent=profile == "single"))
            servers.redis.start()
            servers.proxy = TcpProxy(*servers.redis.address)
            servers.receiver = HangingReceiver() if profile.startswith("single") else None
    except ServiceUnavailable:
        servers.close()
        raise
    return servers


def faults_of(profile: Profile, servers: Servers, surroundings: Surroundings) -> dict[str, Fault]:
    """By name. A profile has what its servers allow; breaks of the log have rounds of their own."""
    own = {fault.name: fault for fault in server_faults(servers)}
    around = [*version_changes(), *environment_faults(surroundings, activations=profile.startswith("single"))]
    found = FAULTS | own | {fault.name: fault for fault in around}
    breaks = {name: fault for name, fault in found.items() if fault.breaks_log and (name == "log-cut") == (name in own)}
    if profile == "log":
        return {**breaks, **_pick(found, "agent-kill", "redis-kill", "zombie")}
    if profile == "brokers-cut":
        return _pick(found, "log-cut", "leader-kill", "agent-kill")
    whole = {name: fault for name, fault in found.items() if not fault.breaks_log}
    if profile == "brokers":
        return _pick(
            whole, *(name for name in own if name in whole), *_AGENT_FAULTS, "partition-increase", "sink-refuses"
        )
    if profile in ("sentinel", "redis-cluster"):
        return _pick(whole, *own, *_AGENT_FAULTS)
    if profile == "single-sticky":  # older agents do not know the setting
        older = {fault.name for fault in version_changes()}
        return {name: fault for name, fault in whole.items() if name not in older}
    # An append-only file would win over a snapshot.
    return {name: fault for name, fault in whole.items() if profile != "single" or not name.startswith("redis-older")}


def _pick(faults: Mapping[str, Fault], *names: str) -> dict[str, Fault]:
    return {name: faults[name] for name in names}


def run_round(plan: RoundPlan, logs: Path) -> Round:
    """Never raises for what happens in the round: a round that cannot be finished is a result."""
    started_s, load = time.monotonic(), os.getloadavg()[0]
    outcomes: list[FaultOutcome] = []
    found: dict[str, Any] = {}
    failure = None
    directory = logs / f"round-{plan.seed}"
    try:
        servers = start_servers(plan.profile)
    except ServiceUnavailable as error:
        return _round(plan, [], {}, f"the servers do not start: {error}", started_s, load)
    surroundings = Surroundings(directory / "surroundings")
    surroundings.prepare(os.environ)
    nursery = Nursery() if plan.forks else None
    try:
        kinds = faults_of(plan.profile, servers, surroundings)
        chosen = [kinds[name] for name in (plan.only or kinds) if name in kinds]
        order = plan_faults(chosen, plan.count if chosen else 0, Random(plan.seed))
        experiment = _experiment(servers, directory, plan, surroundings)
        if nursery is not None:
            experiment = replace(experiment, launch=nursery.launch)
        result = asyncio.run(run_experiment(experiment, order, partial(_report, plan.seed), outcomes))
        found = result.as_json()
        if result.same:
            shutil.rmtree(directory, ignore_errors=True)
    except (ChaosError, ConnectorError, SettingsError, ServiceUnavailable, OSError, TimeoutError) as error:
        failure = f"{type(error).__name__}: {error}"
    finally:
        servers.close()
        if nursery is not None:
            nursery.close()
    return _round(plan, outcomes, found, failure, started_s, load)


def _report(seed: int, line: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} [{seed}] {line}", flush=True)


def _round(
    plan: RoundPlan,
    outcomes: Sequence[FaultOutcome],
    found: dict[str, Any],
    failure: str | None,
    started_s: float,
    load: float,
) -> Round:
    compared = found.get("comparison", {})
    return Round(
        seed=plan.seed,
        profile=plan.profile,
        commit=_commit(),
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        seconds=round(time.monotonic() - started_s, 1),
        load=(round(load, 1), round(os.getloadavg()[0], 1)),
        faults=[each.as_json() for each in outcomes],
        counts={name: found.get(name, 0) for name in _COUNTS},
        lost=len(compared.get("missing", ())),
        extra=len(compared.get("extra", ())),
        different=len(compared.get("different", ())),
        wrong_states=list(found.get("wrong_states", ())),
        unreported=list(found.get("unreported", ())),
        failure=failure,
        started="forked" if plan.forks else "anew",
    )


_COUNTS = ("records", "expected", "published", "repeated", "conflicts", "history_lost", "segments", "excused")


def _experiment(servers: Servers, directory: Path, plan: RoundPlan, surroundings: Surroundings) -> Experiment:
    directory.mkdir(parents=True, exist_ok=True)
    names = ExperimentNames(f"chaos-{uuid.uuid4().hex[:8]}")
    kafka = servers.brokers or servers.broker
    assert kafka is not None
    path = write_plant(
        directory / "user.yaml",
        Names("chaos"),
        bootstrap=kafka.bootstrap,
        redis_url=f"redis://127.0.0.1:{servers.proxy.port}/0" if servers.proxy else "",
        emission={"policy": "all", "channels": "none"},
        groups=[PUMPS | {"model": {"bundle": str(surroundings.bundle)}}],
        records={"max_clock_skew": "1h", "unknown_channel": "ignore" if plan.seed % 2 else "reject"},
        assignor="sticky" if plan.profile == "single-sticky" else "roundrobin",
        **_store(servers),
    )
    pace = ExperimentPace(member_timeout_s=MEMBER_TIMEOUT_S)
    services = Services(servers.broker, servers.redis)
    if servers.brokers is not None:
        _create_topics(servers.brokers, names, cut=plan.profile == "brokers-cut")
    sinks = [_receiving(servers.receiver)] if servers.receiver else []
    # Nothing to clean up: the servers end with the round.
    models = surroundings.models if plan.profile.startswith("single") else None
    return Experiment(path, directory, names, plan.seed, SIZE, pace, services, sinks, keep=True, models=models)


def _receiving(receiver: HangingReceiver) -> dict[str, Any]:
    """Short enough that a hand-over can wait for it."""
    return {"kind": "webhook", "url": receiver.url, "timeout": "1s", "retries": {"attempts": 2}}


def _create_topics(brokers: KafkaCluster, names: ExperimentNames, *, cut: bool) -> None:
    """Three replicas, of which two must have every record; only where a log is to be cut, one is enough."""
    config = {"min.insync.replicas": "1" if cut else "2"}
    unclean = {"unclean.leader.election.enable": "true"} if cut else {}
    brokers.create_topic(names.input, SIZE.partitions, config | unclean)
    for stream, name in names.outputs.items():
        compacted = {"cleanup.policy": "compact"} if stream == "states" else {}
        brokers.create_topic(name, SIZE.partitions, config | compacted)


def _store(servers: Servers) -> dict[str, Any]:
    common = {"kind": "redis", "timeout": "1s", "key_prefix": "chaos"}
    if servers.sentinel is not None:
        nodes = ",".join(f"{host}:{port}" for host, port in servers.sentinel.sentinels.addresses)
        return {"store": common | {"url": f"redis+sentinel://{nodes}/{servers.sentinel.master_name}"}}
    if servers.redis_cluster is not None:
        nodes = ",".join(f"{host}:{port}" for host, port in servers.redis_cluster.addresses)
        return {"store": common | {"url": f"redis+cluster://{nodes}"}}
    return {}


def _commit() -> str:
    asked = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True)
    return asked.stdout.strip() or "unknown"
