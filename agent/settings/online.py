"""Inspects the services of a plant, read-only, and adds their problems to those of its settings."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.settings import (
    Examination,
    KafkaSecurity,
    KafkaSinkSettings,
    KafkaSourceSettings,
    LoadedPlant,
    Plant,
    Problem,
    RedisStoreSettings,
)
from agent.settings.connections import cluster_of, server_of
from agent.settings.document import read_document
from agent.settings.problems import Path
from agent.settings.service_rules import (
    Needs,
    Role,
    Use,
    kafka_outage,
    kafka_problems,
    redis_outage,
    redis_problems,
    retention_needed_ms,
)
from connectors.probe import Outage

if TYPE_CHECKING:
    from connectors.kafka.cluster import Cluster

TIMEOUT_S = 5.0
_STREAMS: tuple[Role, ...] = ("events", "states", "dead_letters")


@dataclass(frozen=True, slots=True)
class Findings:
    """`unreachable` are errors too, but may be gone in a minute; the others must be fixed."""

    problems: tuple[Problem, ...] = ()
    unreachable: tuple[Problem, ...] = ()

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(self.problems + other.problems, self.unreachable + other.unreachable)

    @property
    def only_unreachable(self) -> bool:
        return bool(self.unreachable) and all(problem.severity != "error" for problem in self.problems)


async def examine_services(plant: LoadedPlant, *, timeout_s: float = TIMEOUT_S) -> Findings:
    """All of them at the same time, each with its own time-out."""
    settings = plant.settings
    needs = Needs(
        retention_needed_ms(plant.groups),
        own_timestamps=settings.records.time.field is None,
        clock_checked=settings.records.max_clock_skew is not None,
    )
    async with asyncio.TaskGroup() as group:
        registry = group.create_task(_inspect_registry(plant, timeout_s))
        tasks = [
            group.create_task(_inspect_kafka(cluster, uses, needs, timeout_s))
            for cluster, uses in _uses_by_cluster(settings).items()
        ]
        if isinstance(settings.store, RedisStoreSettings):
            tasks.append(group.create_task(_inspect_redis(settings.store, timeout_s)))
    return sum((task.result() for task in [*tasks, registry]), Findings())


def add_findings(examination: Examination, findings: Findings) -> Examination:
    """The findings get their places in the file; with errors among them the plant counts as not loaded."""
    document = read_document(examination.path)
    found = [document.locate(problem) for problem in (*findings.problems, *findings.unreachable)]
    loaded = None if any(problem.severity == "error" for problem in found) else examination.loaded
    return replace(examination, loaded=loaded, problems=(*examination.problems, *found))


async def _inspect_kafka(cluster: "Cluster", uses: list[Use], needs: Needs, timeout_s: float) -> Findings:
    from connectors.kafka.inspection import inspect_cluster  # imports aiokafka, only where there is Kafka

    facts = await inspect_cluster(cluster, [use.topic for use in uses], timeout_s=timeout_s)
    if isinstance(facts, Outage):
        section: Path = uses[0].path[:1] if uses[0].path[0] == "source" else uses[0].path[:2]
        return _outage(facts, kafka_outage(section, facts))
    return Findings(tuple(kafka_problems(uses, facts, needs)))


async def _inspect_registry(plant: LoadedPlant, timeout_s: float) -> Findings:
    from agent.settings.registry_check import examine_registry  # imports httpx, only where there is a registry

    if plant.settings.records.registry is None:
        return Findings()
    try:
        async with asyncio.timeout(timeout_s):
            problems, outage = await examine_registry(plant)
    except TimeoutError:
        wrong = f"the schema registry did not answer within {timeout_s:g} s"
        problems, outage = [], Problem(("records", "registry"), wrong, "start it, or correct url and login")
    return Findings(tuple(problems), () if outage is None else (outage,))


async def _inspect_redis(store: RedisStoreSettings, timeout_s: float) -> Findings:
    from connectors.redis.inspection import inspect_redis

    server = server_of(store)
    timeout_s = min(timeout_s, server.timeout_s)
    facts = await inspect_redis(replace(server, timeout_s=timeout_s), timeout_s=timeout_s)
    if isinstance(facts, Outage):
        return _outage(facts, redis_outage(("store",), facts))
    return Findings(tuple(redis_problems(("store",), facts)))


def _outage(outage: Outage, problem: Problem) -> Findings:
    return Findings(unreachable=(problem,)) if outage.kind == "unreachable" else Findings(problems=(problem,))


def _uses_by_cluster(settings: Plant) -> "dict[Cluster, list[Use]]":
    """Source and sinks with the same address and login are inspected once."""
    found: dict[Cluster, list[Use]] = {}
    for cluster, use in _uses(settings):
        found.setdefault(cluster, []).append(use)
    return found


def _uses(settings: Plant) -> "Iterator[tuple[Cluster, Use]]":
    source = settings.source
    if isinstance(source, KafkaSourceSettings):
        cluster = cluster_of(source.bootstrap, source.security)
        for at, topic in enumerate(source.topics):
            yield cluster, Use(("source", "topics", at), topic, "input")
    for at, sink in enumerate(settings.sinks):
        if isinstance(sink, KafkaSinkSettings):
            cluster = cluster_of(sink.bootstrap, sink.security or KafkaSecurity())
            for use in _sink_topics(settings, sink, ("sinks", at, "topics")):
                yield cluster, use


def _sink_topics(settings: Plant, sink: KafkaSinkSettings, path: Path) -> Iterator[Use]:
    for role in _STREAMS:
        yield Use((*path, role), getattr(sink.topics, role), role, sink.max_message_bytes)
    if settings.models is not None and sink is settings.kafka_sink:
        topic = sink.topics.activations or f"{settings.namespace}-activations"
        yield Use((*path, "activations"), topic, "activations")
