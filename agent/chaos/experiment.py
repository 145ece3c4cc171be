"""Runs an experiment: agents on a simulated stream, faults while it runs, then the comparison and the clean-up."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import yaml

from agent.chaos.agents import AgentFleet, ChaosError, Launch, start_anew
from agent.chaos.config import ExperimentNames, ExperimentPace, experiment_document, require_services
from agent.chaos.context import FaultContext, Services
from agent.chaos.fault import Fault
from agent.chaos.report import ExperimentResult, FaultOutcome
from agent.chaos.segments import Judges
from agent.chaos.workload import Workload, workload_assets
from agent.offline.simulate import RecordConverter
from agent.settings import (
    KafkaSourceSettings,
    LoadedPlant,
    RedisStoreSettings,
    ResolvedGroup,
    load_plant,
    load_settings,
)
from agent.settings.connections import cluster_of, server_of, window_prefix
from agent.settings.document import read_document
from connectors.kafka.admin import TopicPlan, delete_topics, ensure_topics
from connectors.kafka.cluster import Cluster
from connectors.redis.fault_injection import forget_keys

Report = Callable[[str], None]
"""Called with what happens, one line at a time."""
Kind = TypeVar("Kind")

_ASSIGNMENT_TIMEOUT_S = 120.0
_REACHES = 2
"""How many times a window's reach the windows after a break of the log may say that history is lost."""


@dataclass(frozen=True, slots=True)
class ExperimentSize:
    """`rate` is in records per second, `assets` per group, `pause_s` the range of pauses between two faults."""

    agents: int = 2
    partitions: int = 4
    assets: int = 6
    rate: float = 200.0
    pause_s: tuple[float, float] = (0.5, 2.5)
    spare: int = 0
    """So many agents may still be starting when the next fault is injected."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """`config` is the user's plant.yaml; `directory` gets the agents' logs and their own plant.yaml.

    `sinks` are further ones that get all events, such as a receiver of the experiment's own. `source`: packages of
    another version, with which the agents start. `models`: bundles that the experiment may activate.
    """

    config: Path
    directory: Path
    names: ExperimentNames
    seed: int = 0
    size: ExperimentSize = field(default_factory=ExperimentSize)
    pace: ExperimentPace = field(default_factory=ExperimentPace)
    services: Services = field(default_factory=Services)
    sinks: Sequence[Mapping[str, Any]] = ()
    source: Path | None = None
    keep: bool = False
    launch: Launch = start_anew
    models: Path | None = None


def plan_faults(kinds: Sequence[Kind], count: int, random: Random) -> list[Kind]:
    """Every kind once in random order, then every kind again, until there are `count`."""
    order: list[Kind] = []
    while len(order) < count:
        order += random.sample(list(kinds), len(kinds))
    return order[:count]


async def run_experiment(
    experiment: Experiment, faults: Sequence[Fault], report: Report, outcomes: list[FaultOutcome] | None = None
) -> ExperimentResult:
    """1. own topics, 2. agents and workload, 3. the faults, 4. stop and compare, 5. remove topics and keys.

    `outcomes` grows with every fault. Raises ChaosError where the experiment cannot be finished, SettingsError where
    the plant does not fit.
    """
    started_s, outcomes = time.monotonic(), [] if outcomes is None else outcomes
    plant = _write_plant(experiment, holds_states=not any(fault.breaks_log for fault in faults))
    async with _topics(experiment, plant), _fleet(experiment) as fleet:
        context = _context(experiment, plant, fleet, _workload(experiment, plant))
        judges = Judges(plant, _cluster(plant), experiment.names, report)
        try:
            await _run_faults(_Run(experiment, context, judges, report, outcomes), faults)
        finally:
            await context.forget_offsets()
        await fleet.stop()
        report(f"comparing with a replay of {context.workload.sent} records")
        await judges.close_segment(context)
        return judges.result(experiment.seed, context.workload.sent, outcomes, time.monotonic() - started_s)


def _write_plant(experiment: Experiment, *, holds_states: bool) -> LoadedPlant:
    settings = load_settings(experiment.config, os.environ)
    require_services(settings)
    content = read_document(experiment.config).content
    document = experiment_document(
        content,
        settings,
        experiment.config.parent,
        experiment.names,
        experiment.pace,
        sinks=experiment.sinks,
        models=experiment.models,
        holds_states=holds_states,
    )
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
    fleet = AgentFleet(_plant_file(experiment), experiment.directory, experiment.size.agents, experiment.launch)
    for agent in fleet:
        agent.source = experiment.source
    try:
        yield fleet
    finally:
        fleet.kill()


def _context(experiment: Experiment, plant: LoadedPlant, fleet: AgentFleet, workload: Workload) -> FaultContext:
    store = _store(plant)
    return FaultContext(
        fleet=fleet,
        cluster=_cluster(plant),
        server=server_of(store),
        names=experiment.names,
        group=plant.settings.consumer_group,
        key_prefix=window_prefix(plant.settings, store),
        services=experiment.services,
        random=Random(experiment.seed),
        member_timeout_s=experiment.pace.member_timeout_s,
        workload=workload,
        reach_ns=_REACHES * max(_reach_ns(group) for group in plant.groups),
        settle_ns=max(_settle_ns(group) for group in plant.groups),
    )


def _reach_ns(group: ResolvedGroup) -> int:
    """A window, the one before it, and what may still arrive late."""
    shape = group.shape
    return (shape.length + shape.hop + shape.lateness) * group.grid.period_ns


def _settle_ns(group: ResolvedGroup) -> int:
    return (group.shape.hop + group.shape.lateness) * group.grid.period_ns


def _workload(experiment: Experiment, plant: LoadedPlant) -> Workload:
    assets, size = workload_assets(plant, experiment.size.assets, experiment.seed), experiment.size
    converter = RecordConverter.of(plant.settings)
    return Workload(_cluster(plant), experiment.names.input, assets, converter, partitions=size.partitions)


@dataclass(frozen=True, slots=True)
class _Run:
    experiment: Experiment
    context: FaultContext
    judges: Judges
    report: Report
    outcomes: list[FaultOutcome]


async def _run_faults(run: _Run, faults: Sequence[Fault]) -> None:
    """The supervisor and the workload run at the same time; the first that fails ends the experiment."""
    stop, context = asyncio.Event(), run.context
    try:
        async with asyncio.TaskGroup() as group:
            supervisor = group.create_task(context.fleet.supervise())
            producing = group.create_task(context.workload.produce(run.experiment.size.rate, stop))
            await _inject_all(run, faults)
            stop.set()
            await producing
            await context.wait_for_recovery(time.monotonic())
            supervisor.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors


async def _inject_all(run: _Run, faults: Sequence[Fault]) -> None:
    """One after the other, each when enough agents have partitions again."""
    size, fleet = run.experiment.size, run.context.fleet
    run.report(f"starting {size.agents} agents")
    await fleet.wait_until_assigned(_ASSIGNMENT_TIMEOUT_S)
    for number, fault in enumerate(faults, start=1):
        await fleet.wait_until_assigned(_ASSIGNMENT_TIMEOUT_S, at_least=max(size.agents - size.spare, fault.agents))
        await asyncio.sleep(run.context.random.uniform(*size.pause_s))
        try:
            outcome = await _inject(run, fault)
        except ChaosError as error:
            raise ChaosError(f"fault {number}, {fault.name}: {error}") from error
        note = f" ({outcome.note})" if outcome.note else ""
        run.report(f"{number}/{len(faults)} {fault.name}: recovered in {outcome.recovered_s:.1f} s{note}")
        run.outcomes.append(replace(outcome, load_average=os.getloadavg()[0]))
    await fleet.wait_until_assigned(_ASSIGNMENT_TIMEOUT_S)


async def _inject(run: _Run, fault: Fault) -> FaultOutcome:
    """Before the log breaks, everything in it is committed and compared."""
    if fault.breaks_log:
        await run.context.workload.pause()
        await run.context.wait_for_recovery(time.monotonic())
        await run.judges.close_segment(run.context)
    return await fault.inject(run.context)


def _cluster(plant: LoadedPlant) -> Cluster:
    source = plant.settings.source
    assert isinstance(source, KafkaSourceSettings)
    return cluster_of(source.bootstrap, source.security)


def _store(plant: LoadedPlant) -> RedisStoreSettings:
    store = plant.settings.store
    assert isinstance(store, RedisStoreSettings)
    return store
