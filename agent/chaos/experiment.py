"""Runs an experiment: agents on a simulated stream, faults while it runs, then the comparison and the clean-up."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

import orjson
import yaml

from agent.chaos.agents import AgentFleet, ChaosError
from agent.chaos.config import ExperimentNames, ExperimentPace, experiment_document, require_services
from agent.chaos.context import FaultContext, Services
from agent.chaos.faults import Fault
from agent.chaos.report import ExperimentResult, FaultOutcome, wrong_states
from agent.chaos.workload import Workload, workload_assets
from agent.models.classifier import HISTORY_LOST
from agent.offline.compare import compare
from agent.offline.event_set import EventSet
from agent.offline.replay import replay
from agent.offline.simulate import RecordConverter
from agent.settings import KafkaSourceSettings, LoadedPlant, RedisStoreSettings, load_plant, load_settings
from agent.settings.connections import cluster_of, server_of, window_prefix
from agent.settings.document import read_document
from connectors.kafka.admin import TopicPlan, delete_topics, ensure_topics
from connectors.kafka.bounded import BoundedKafkaSource, read_records
from connectors.kafka.cluster import Cluster
from connectors.kafka.group_offsets import GroupOffsets
from connectors.records import EVENTS, Message
from connectors.redis.fault_injection import forget_keys

Report = Callable[[str], None]
"""Called with what happens, one line at a time."""
Kind = TypeVar("Kind")

_ASSIGNMENT_TIMEOUT_S = 120.0
_READ_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class ExperimentSize:
    """`rate` is in records per second, `assets` per group, `pause_s` the range of pauses between two faults."""

    agents: int = 2
    partitions: int = 4
    assets: int = 6
    rate: float = 200.0
    pause_s: tuple[float, float] = (0.5, 2.5)


@dataclass(frozen=True, slots=True)
class Experiment:
    """`config` is the user's plant.yaml; `directory` gets the agents' logs and their own plant.yaml."""

    config: Path
    directory: Path
    names: ExperimentNames
    seed: int = 0
    size: ExperimentSize = field(default_factory=ExperimentSize)
    pace: ExperimentPace = field(default_factory=ExperimentPace)
    services: Services = field(default_factory=Services)
    keep: bool = False


def plan_faults(kinds: Sequence[Kind], count: int, random: Random) -> list[Kind]:
    """Every kind once in random order, then every kind again, until there are `count`."""
    order: list[Kind] = []
    while len(order) < count:
        order += random.sample(list(kinds), len(kinds))
    return order[:count]


async def run_experiment(experiment: Experiment, faults: Sequence[Fault], report: Report) -> ExperimentResult:
    """1. own topics, 2. agents and workload, 3. the faults, 4. stop and compare, 5. remove topics and keys.

    Raises ChaosError where it cannot be finished, SettingsError where the plant does not fit.
    """
    started_s = time.monotonic()
    plant = _write_plant(experiment)
    async with _topics(experiment, plant), _fleet(experiment) as fleet, _offsets(experiment, plant) as offsets:
        context = _context(experiment, plant, fleet, offsets)
        workload = _workload(experiment, plant)
        outcomes = await _run_faults(experiment, context, workload, faults, report)
        await fleet.stop()
        report(f"comparing with a replay of {workload.sent} records")
        return await _result(experiment, plant, workload.sent, outcomes, started_s)


def _write_plant(experiment: Experiment) -> LoadedPlant:
    settings = load_settings(experiment.config, os.environ)
    require_services(settings)
    content = read_document(experiment.config).content
    document = experiment_document(content, settings, experiment.config.parent, experiment.names, experiment.pace)
    experiment.directory.mkdir(parents=True, exist_ok=True)
    _plant_file(experiment).write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return load_plant(_plant_file(experiment), os.environ)


def _plant_file(experiment: Experiment) -> Path:
    return experiment.directory / "plant.yaml"


@asynccontextmanager
async def _topics(experiment: Experiment, plant: LoadedPlant) -> AsyncIterator[None]:
    """Everything that the experiment wrote is removed at its end, also after an error, unless `keep`."""
    cluster, size = _cluster(plant), experiment.size.partitions
    configs = {experiment.names.outputs["states"]: {"cleanup.policy": "compact"}}
    plans = [TopicPlan(name, size, None, configs.get(name, {})) for name in experiment.names.topics]
    try:
        await ensure_topics(cluster, plans)
        yield
    finally:
        if not experiment.keep:
            await delete_topics(cluster, experiment.names.topics)
            await forget_keys(server_of(_store(plant)), window_prefix(plant.settings, _store(plant)))


@asynccontextmanager
async def _fleet(experiment: Experiment) -> AsyncIterator[AgentFleet]:
    fleet = AgentFleet(_plant_file(experiment), experiment.directory, experiment.size.agents)
    try:
        yield fleet
    finally:
        fleet.kill()


@asynccontextmanager
async def _offsets(experiment: Experiment, plant: LoadedPlant) -> AsyncIterator[GroupOffsets]:
    group, size = plant.settings.consumer_group, experiment.size.partitions
    offsets = GroupOffsets(_cluster(plant), experiment.names.input, group, partitions=size)
    try:
        yield offsets
    finally:
        await offsets.close()


def _context(experiment: Experiment, plant: LoadedPlant, fleet: AgentFleet, offsets: GroupOffsets) -> FaultContext:
    store = _store(plant)
    return FaultContext(
        fleet=fleet,
        cluster=_cluster(plant),
        server=server_of(store),
        names=experiment.names,
        key_prefix=window_prefix(plant.settings, store),
        offsets=offsets,
        services=experiment.services,
        random=Random(experiment.seed),
        member_timeout_s=experiment.pace.member_timeout_s,
    )


def _workload(experiment: Experiment, plant: LoadedPlant) -> Workload:
    assets, size = workload_assets(plant, experiment.size.assets, experiment.seed), experiment.size
    converter = RecordConverter.of(plant.settings)
    return Workload(_cluster(plant), experiment.names.input, assets, converter, partitions=size.partitions)


async def _run_faults(
    experiment: Experiment, context: FaultContext, workload: Workload, faults: Sequence[Fault], report: Report
) -> list[FaultOutcome]:
    """The supervisor and the workload run at the same time; the first that fails ends the experiment."""
    stop = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            supervisor = group.create_task(context.fleet.supervise())
            producing = group.create_task(workload.produce(experiment.size.rate, stop))
            outcomes = await _inject_all(experiment, context, faults, report)
            stop.set()
            await producing
            await context.wait_for_recovery(time.monotonic())
            supervisor.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return outcomes


async def _inject_all(
    experiment: Experiment, context: FaultContext, faults: Sequence[Fault], report: Report
) -> list[FaultOutcome]:
    """One after the other, each when all agents have partitions again."""
    outcomes: list[FaultOutcome] = []
    report(f"starting {experiment.size.agents} agents")
    for number, fault in enumerate(faults, start=1):
        await context.fleet.wait_until_assigned(_ASSIGNMENT_TIMEOUT_S)
        await asyncio.sleep(context.random.uniform(*experiment.size.pause_s))
        try:
            outcome = await fault.inject(context)
        except ChaosError as error:
            raise ChaosError(f"fault {number}, {fault.name}: {error}") from error
        note = f" ({outcome.note})" if outcome.note else ""
        report(f"{number}/{len(faults)} {fault.name}: recovered in {outcome.recovered_s:.1f} s{note}")
        outcomes.append(outcome)
    await context.fleet.wait_until_assigned(_ASSIGNMENT_TIMEOUT_S)
    return outcomes


async def _result(
    experiment: Experiment, plant: LoadedPlant, records: int, outcomes: Sequence[FaultOutcome], started_s: float
) -> ExperimentResult:
    source = BoundedKafkaSource(_cluster(plant), [experiment.names.input])
    replayed = await replay(plant, source, stop=asyncio.Event(), report=lambda done, total: None)
    published, count = EventSet(), 0
    async for record in read_records(_cluster(plant), experiment.names.outputs["events"], timeout_s=_READ_TIMEOUT_S):
        published.add(Message(EVENTS, record.key, record.value, tuple(record.headers)))
        count += 1
    return ExperimentResult(
        namespace=experiment.names.namespace,
        seed=experiment.seed,
        seconds=time.monotonic() - started_s,
        records=records,
        outcomes=outcomes,
        comparison=compare(replayed.events, published, without_input=False),
        published=count,
        repeated=count - len(published) - published.conflicts,
        conflicts=published.conflicts,
        history_lost=sum(orjson.loads(value).get("abstention") == HISTORY_LOST for value in published.values()),
        wrong_states=wrong_states(published.values(), [state async for state in _states(experiment, plant)]),
    )


async def _states(experiment: Experiment, plant: LoadedPlant) -> AsyncIterator[bytes]:
    async for record in read_records(_cluster(plant), experiment.names.outputs["states"], timeout_s=_READ_TIMEOUT_S):
        if record.value is not None:
            yield record.value


def _cluster(plant: LoadedPlant) -> Cluster:
    source = plant.settings.source
    assert isinstance(source, KafkaSourceSettings)
    return cluster_of(source.bootstrap, source.security)


def _store(plant: LoadedPlant) -> RedisStoreSettings:
    store = plant.settings.store
    assert isinstance(store, RedisStoreSettings)
    return store
