"""The course of a trial: own names, agents, a stream, injuries while it flows, the comparison, the tidying up."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import orjson
import yaml

from agent.chaos.agents import AgentFleet
from agent.chaos.config import ExperimentNames, ExperimentPace, experiment_document, require_services
from agent.chaos.context import FaultContext, Services
from agent.chaos.errors import ChaosError
from agent.chaos.faults import Fault
from agent.chaos.last_states import wrong_states
from agent.chaos.report import ExperimentResult, FaultOutcome
from agent.chaos.workload import Workload, known_assets
from agent.models.classifier import HISTORY_LOST
from agent.offline.compare import compare
from agent.offline.event_set import EventSet
from agent.offline.replay import replay
from agent.offline.simulate import Dialect
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
"""Told what happens, one line at a time."""

_SETTLING_S = 120.0
_READING_S = 600.0


@dataclass(frozen=True, slots=True)
class ExperimentSize:
    """`rate` is in records per second, `assets` per group."""

    agents: int = 2
    partitions: int = 4
    assets: int = 6
    rate: float = 200.0
    pause_s: tuple[float, float] = (0.5, 2.5)


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is tried on which plant. `directory` gets the agents' logs and their plant.yaml."""

    config: Path
    directory: Path
    names: ExperimentNames
    seed: int = 0
    size: ExperimentSize = field(default_factory=ExperimentSize)
    pace: ExperimentPace = field(default_factory=ExperimentPace)
    services: Services = field(default_factory=Services)
    keep: bool = False


async def run_experiment(trial: Experiment, injuries: Sequence[Fault], report: Report) -> ExperimentResult:
    """Raises TrialError where it cannot be finished, SettingsError where the plant does not fit."""
    begun_s = time.monotonic()
    plant = _own_plant(trial)
    async with _topics(trial, plant), _fleet(trial) as fleet, _progress(trial, plant) as progress:
        ward = _ward(trial, plant, fleet, progress)
        stream = _stream(trial, plant)
        wounds = await _injured(trial, ward, stream, injuries, report)
        await fleet.retire()
        report(f"comparing with a replay of {stream.sent} records")
        return await _compared(trial, plant, stream.sent, wounds, begun_s)


def _own_plant(trial: Experiment) -> LoadedPlant:
    settings = load_settings(trial.config, os.environ)
    require_services(settings)
    content = read_document(trial.config).content
    document = experiment_document(content, settings, trial.config.parent, trial.names, trial.pace)
    trial.directory.mkdir(parents=True, exist_ok=True)
    _plant_file(trial).write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return load_plant(_plant_file(trial), os.environ)


def _plant_file(trial: Experiment) -> Path:
    return trial.directory / "plant.yaml"


@asynccontextmanager
async def _topics(trial: Experiment, plant: LoadedPlant) -> AsyncIterator[None]:
    """Everything the trial wrote is removed at its end, whatever the end is, unless it is kept."""
    cluster, size = _cluster(plant), trial.size.partitions
    configs = {trial.names.outputs["states"]: {"cleanup.policy": "compact"}}
    plans = [TopicPlan(name, size, None, configs.get(name, {})) for name in trial.names.topics]
    try:
        await ensure_topics(cluster, plans)
        yield
    finally:
        if not trial.keep:
            await delete_topics(cluster, trial.names.topics)
            await forget_keys(server_of(_store(plant)), window_prefix(plant.settings, _store(plant)))


@asynccontextmanager
async def _fleet(trial: Experiment) -> AsyncIterator[AgentFleet]:
    fleet = AgentFleet(_plant_file(trial), trial.directory, trial.size.agents)
    try:
        yield fleet
    finally:
        fleet.close()


@asynccontextmanager
async def _progress(trial: Experiment, plant: LoadedPlant) -> AsyncIterator[GroupOffsets]:
    group, size = plant.settings.consumer_group, trial.size.partitions
    progress = GroupOffsets(_cluster(plant), trial.names.input, group, partitions=size)
    try:
        yield progress
    finally:
        await progress.close()


def _ward(trial: Experiment, plant: LoadedPlant, fleet: AgentFleet, progress: GroupOffsets) -> FaultContext:
    store = _store(plant)
    return FaultContext(
        fleet=fleet,
        cluster=_cluster(plant),
        server=server_of(store),
        names=trial.names,
        prefix=window_prefix(plant.settings, store),
        progress=progress,
        services=trial.services,
        random=Random(trial.seed),
        member_timeout_s=trial.pace.member_timeout_s,
    )


def _stream(trial: Experiment, plant: LoadedPlant) -> Workload:
    assets, dialect = known_assets(plant, trial.size.assets, trial.seed), Dialect.of(plant.settings)
    return Workload(_cluster(plant), trial.names.input, assets, dialect, partitions=trial.size.partitions)


async def _injured(
    trial: Experiment, ward: FaultContext, stream: Workload, injuries: Sequence[Fault], report: Report
) -> list[FaultOutcome]:
    """The supervisor and the stream run beside the injuries; whichever fails ends the trial."""
    stop = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as beside:
            supervisor = beside.create_task(ward.fleet.supervise())
            flow = beside.create_task(stream.flow(trial.size.rate, stop))
            wounds = await _one_after_the_other(trial, ward, injuries, report)
            stop.set()
            await flow
            await ward.recovered(time.monotonic())
            supervisor.cancel()
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return wounds


async def _one_after_the_other(
    trial: Experiment, ward: FaultContext, injuries: Sequence[Fault], report: Report
) -> list[FaultOutcome]:
    wounds: list[FaultOutcome] = []
    report(f"{trial.size.agents} agents start")
    for number, injury in enumerate(injuries, start=1):
        await ward.fleet.settled(_SETTLING_S)
        await asyncio.sleep(ward.random.uniform(*trial.size.pause_s))
        try:
            wound = await injury.inflict(ward)
        except ChaosError as error:
            raise ChaosError(f"injury {number}, {injury.name}: {error}") from error
        note = f" ({wound.note})" if wound.note else ""
        report(f"{number}/{len(injuries)} {injury.name}: recovered in {wound.recovered_s:.1f} s{note}")
        wounds.append(wound)
    await ward.fleet.settled(_SETTLING_S)
    return wounds


async def _compared(
    trial: Experiment, plant: LoadedPlant, records: int, wounds: Sequence[FaultOutcome], begun_s: float
) -> ExperimentResult:
    source = BoundedKafkaSource(_cluster(plant), [trial.names.input])
    replayed = await replay(plant, source, stop=asyncio.Event(), report=lambda done, total: None)
    published, count = EventSet(), 0
    async for record in read_records(_cluster(plant), trial.names.outputs["events"], timeout_s=_READING_S):
        published.add(Message(EVENTS, record.key, record.value, tuple(record.headers)))
        count += 1
    return ExperimentResult(
        namespace=trial.names.namespace,
        seed=trial.seed,
        seconds=time.monotonic() - begun_s,
        records=records,
        wounds=wounds,
        comparison=compare(replayed.events, published, without_input=False),
        published=count,
        repeated=count - len(published) - published.conflicts,
        conflicts=published.conflicts,
        history_lost=sum(orjson.loads(value).get("abstention") == HISTORY_LOST for value in published.values()),
        wrong_states=wrong_states(published.values(), [state async for state in _states(trial, plant)]),
    )


async def _states(trial: Experiment, plant: LoadedPlant) -> AsyncIterator[bytes]:
    async for record in read_records(_cluster(plant), trial.names.outputs["states"], timeout_s=_READING_S):
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
