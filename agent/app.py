"""The wiring: settings in, an application of real parts out. The only module that knows every package."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from socket import socket
from typing import TYPE_CHECKING, Any

from agent.endpoints import activation_log, make_sink, make_source, make_store, skip_log
from agent.errors import SettingsError
from agent.events.emission import Emission
from agent.events.group import GroupRuntime, Publishing
from agent.events.spans import EvidencePolicy
from agent.health.input_monitor import InputMonitor, monitor_input
from agent.health.loop_delay import measure_loop_delay
from agent.health.watchdog import Watchdog
from agent.models.compatibility import CompatibleBundles, LoadModel, active_model, resolve_for_bundle
from agent.models.loading import fresh_loader, model_loader
from agent.runtime.breaker import BreakerLimits
from agent.runtime.checkpointer import OutagePolicy
from agent.runtime.instruments import Instruments, Observers
from agent.runtime.lifecycle import gc_tuning, run_with_helpers
from agent.runtime.memory import release_compiler
from agent.runtime.model_queue import ModelLimits
from agent.runtime.model_reload import ModelReloader, ReloadableGroup
from agent.runtime.pipeline import Endpoints, Pipeline, PipelineLimits
from agent.runtime.skipped_records import SkippedRecords
from agent.settings import (
    Http,
    KafkaSourceSettings,
    LoadedPlant,
    Plant,
    RedisStoreSettings,
    ResolvedGroup,
)
from agent.settings.connections import make_decoder
from agent.windows.hysteresis import milli_bound
from agent.windows.spec import GroupSpec
from anchormoe.errors import ModelError
from connectors.append_log import AppendLog
from connectors.base import Sink, Source, WindowStore

if TYPE_CHECKING:
    from agent.page.agent_page import AgentPage, PageHooks
    from anchormoe import Predictor

Helper = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Application:
    """The pipeline and the tasks that run beside it: watchdog, metrics, activations and the like."""

    pipeline: Pipeline
    helpers: tuple[Helper, ...]

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` or the end of a bounded source; the first failure of any part ends all and is raised."""
        observer = self.pipeline.instruments.observer
        with gc_tuning():
            observer.start()
            try:
                await run_with_helpers(self.pipeline.run(stop), [helper() for helper in self.helpers])
            finally:
                observer.stop()


@contextmanager
def build(
    plant: LoadedPlant,
    *,
    instruments: Instruments | None = None,
    load_model: LoadModel | None = None,
    page: "PageHooks | None" = None,
) -> Iterator[Application]:
    """1. Bind the HTTP address. 2. Load and check the models. Nothing is connected before `run`.

    With `page`, the operator page is served beside health and metrics, unless the settings say otherwise.
    """
    instruments = instruments or Instruments()
    observers = Observers(instruments.observer)
    with _listener(plant.settings) as listener:
        watched = replace(instruments, observer=observers, rejected=observers.rejected)
        pipeline = build_pipeline(plant, instruments=watched, load_model=load_model)
        shown = page is not None and listener is not None and plant.settings.page.enabled
        own = _agent_page(plant, pipeline, observers, page) if shown and page is not None else None
        helpers = [*_helpers(plant.settings, pipeline, listener, own)]
        if own is not None and listener is not None and plant.settings.http is not None and page is not None:
            from agent.web.server import address_of

            page.announce(address_of(listener, tls=plant.settings.http.cert_file is not None))
        yield Application(pipeline, tuple(helpers))


def _agent_page(plant: LoadedPlant, pipeline: Pipeline, observers: Observers, hooks: "PageHooks") -> "AgentPage":
    from agent.page.agent_page import AgentPage

    own = AgentPage(plant, pipeline, hooks)
    observers.views.append(own.feed)
    observers.letters.append(own.feed.rejected)
    return own


def _listener(settings: Plant) -> "socket | nullcontext[None]":
    from agent.web.server import listen

    return nullcontext() if settings.http is None else listen(settings.http.host, settings.http.port)


def _helpers(
    settings: Plant, pipeline: Pipeline, listener: socket | None, page: "AgentPage | None"
) -> Iterator[Helper]:
    no_progress_s = settings.limits.no_progress.seconds
    monitor = InputMonitor(_describe_source(settings))
    yield lambda: measure_loop_delay(pipeline.status)
    yield Watchdog(pipeline, limit_s=no_progress_s).watch
    yield lambda: monitor_input(
        monitor, pipeline.counters, pipeline.progress, pipeline.status, pipeline.instruments.observer.warned
    )
    if isinstance(settings.source, KafkaSourceSettings):
        yield pipeline.skips.follow
    models = pipeline.models
    if models is not None:
        yield lambda: models.follow(pipeline.announce)
    if settings.http is not None and listener is not None:
        http = settings.http
        yield lambda: _serve_http(pipeline, listener, http, page, no_progress_s=no_progress_s)
    if page is not None:
        yield from page.helpers()


async def _serve_http(
    pipeline: Pipeline, listener: socket, http: Http, page: "AgentPage | None", *, no_progress_s: float
) -> None:
    from agent.health.http import HealthPages
    from agent.health.metrics import make_registry
    from agent.web.from_settings import access_of, serving_of
    from agent.web.metrics import RefusalCollector
    from agent.web.server import serve

    progress, status = pipeline.progress, pipeline.status
    serving = serving_of(http) if page is None else page.serving(http)
    registry = make_registry(pipeline.counters, progress, status)
    registry.register(RefusalCollector(serving.refusals))
    pages = HealthPages(progress, status, registry, no_progress_s=no_progress_s, access=access_of(http))
    await serve(pages.app([] if page is None else page.routes()), listener, serving)


def _describe_source(settings: Plant) -> str:
    """Where records are expected from, for people."""
    source = settings.source
    if isinstance(source, KafkaSourceSettings):
        topics = f"topic{'s' if len(source.topics) > 1 else ''} {', '.join(source.topics)}"
        return f"{topics} on {source.bootstrap} (consumer group {settings.consumer_group})"
    return f"the {source.kind} source"


@dataclass(frozen=True, slots=True)
class Overrides:
    """Used instead of what the settings name: a replay has another source, store and sink."""

    source: Source | None = None
    store: WindowStore | None = None
    sink: Sink | None = None
    limits: PipelineLimits | None = None
    activations: AppendLog | None = None
    skips: AppendLog | None = None


def build_pipeline(
    plant: LoadedPlant,
    *,
    instruments: Instruments | None = None,
    load_model: LoadModel | None = None,
    overrides: Overrides | None = None,
) -> Pipeline:
    """The pipeline alone. Models are loaded and checked here, before anything is connected."""
    settings, overrides = plant.settings, overrides or Overrides()
    load, instruments = load_model or model_loader(settings), instruments or Instruments()
    groups = {group.name: make_group(group, settings, predictor) for group, predictor in load_groups(plant, load)}
    release_compiler()
    instruments.status.models_loaded = True
    endpoints = Endpoints(
        source=overrides.source or make_source(settings),
        store=overrides.store or make_store(settings),
        sink=overrides.sink or make_sink(settings, instruments.counters),
    )
    return Pipeline(
        endpoints,
        make_decoder(plant.groups, settings.records),
        groups,
        overrides.limits or pipeline_limits(settings),
        instruments=instruments,
        models=_model_reloader(plant, groups, load_model or fresh_loader(settings), instruments, overrides.activations),
        skips=SkippedRecords(overrides.skips if overrides.source is not None else skip_log(settings)),
    )


def _model_reloader(
    plant: LoadedPlant,
    groups: Mapping[str, GroupRuntime],
    load: LoadModel,
    instruments: Instruments,
    activations: AppendLog | None,
) -> ModelReloader | None:
    """None where the plant has no directory of bundles: then the configured models stay active."""
    if plant.settings.models is None:
        return None
    bundles = compatible_bundles(plant, load)
    reloadable = {name: ReloadableGroup(group, bundles[name]) for name, group in groups.items()}
    return ModelReloader(activations or activation_log(plant.settings), reloadable, instruments.status)


def compatible_bundles(plant: LoadedPlant, load: LoadModel | None = None) -> dict[str, CompatibleBundles]:
    """The bundles that each group accepts. Raises SettingsError where the plant has no directory of bundles."""
    models = plant.settings.models
    if models is None:
        raise SettingsError("models: missing; set `directory` to the directory of the bundles that may be activated")
    fresh = load or fresh_loader(plant.settings)
    pairs = zip(plant.settings.groups, plant.groups, strict=True)
    return {running.name: CompatibleBundles(models.directory, stated, running, fresh) for stated, running in pairs}


def load_groups(plant: LoadedPlant, load: LoadModel) -> "Iterator[tuple[ResolvedGroup, Predictor]]":
    """Each group as the loaded bundle wants it: it may have been replaced since the settings were read.

    Raises ModelError where the new one does not fit the windows; starting again reads both at once.
    """
    for stated, running in zip(plant.settings.groups, plant.groups, strict=True):
        predictor = load(running.bundle)
        try:
            resolved = resolve_for_bundle(stated, running, predictor.config)
        except ModelError as error:
            reason = f"{running.bundle} was replaced while the agent started; start it again: {error}"
            raise ModelError(reason) from error
        yield resolved, predictor


def make_group(group: ResolvedGroup, settings: Plant, predictor: "Predictor") -> GroupRuntime:
    emission = settings.emission
    heartbeat_steps = 0 if emission.heartbeat is None else emission.heartbeat // group.grid.period_ns
    return GroupRuntime(
        GroupSpec.from_settings(
            group,
            assets_per_partition=settings.limits.assets_per_partition,
            max_clock_skew_ns=settings.records.max_clock_skew,
        ),
        active_model(group, predictor),
        Publishing(
            namespace=settings.namespace,
            emission=Emission(emission.policy, heartbeat_steps, emission.why_not, emission.similar),
            evidence=EvidencePolicy(emission.evidence_share, emission.spans_limit),
        ),
        hysteresis_milli=None if group.hysteresis_bound is None else milli_bound(group.hysteresis_bound),
    )


def pipeline_limits(settings: Plant) -> PipelineLimits:
    return PipelineLimits(
        max_records=settings.limits.max_batch_records,
        in_flight=settings.limits.in_flight_batches,
        queue_windows=settings.limits.queue_windows,
        breaker=breaker_limits(settings),
        model=ModelLimits(settings.inference.batch, settings.inference.max_wait.seconds),
        outage=_outage_policy(settings),
        checkpoint_every_s=settings.checkpoint.every.seconds,
        checkpoint_records=settings.checkpoint.records,
        revoke_deadline_s=settings.checkpoint.revoke_deadline.seconds,
        takeover_deadline_s=settings.checkpoint.takeover_deadline.seconds,
        stop_deadline_s=settings.checkpoint.stop_deadline.seconds,
    )


def breaker_limits(settings: Plant) -> BreakerLimits:
    return BreakerLimits(settings.limits.breaker.records, settings.limits.breaker.share)


def _outage_policy(settings: Plant) -> OutagePolicy:
    store = settings.store
    if not isinstance(store, RedisStoreSettings):
        return OutagePolicy()
    return OutagePolicy(store.pause_after.seconds, store.exit_after.seconds)
