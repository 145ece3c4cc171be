"""The wiring: settings in, a pipeline of real parts out. The only place that knows every package."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from agent.errors import SettingsError
from agent.events.emission import Emission
from agent.events.evidence import EvidencePolicy
from agent.events.group import Publishing, Watched
from agent.health.counters import Counters
from agent.health.status import RuntimeStatus
from agent.models.compatibility import CompatibleBundles, LoadModel, active_model
from agent.models.loading import fresh_loader, model_loader
from agent.runtime.checkpointer import OutagePolicy
from agent.runtime.model_reload import ModelReloader, ReloadableGroup
from agent.runtime.observer import Observer
from agent.runtime.pipeline import Pipeline, PipelineLimits
from agent.settings import (
    FileSourceSettings,
    JsonlSinkSettings,
    KafkaSinkSettings,
    KafkaSourceSettings,
    LoadedPlant,
    MemorySourceSettings,
    MemoryStoreSettings,
    Plant,
    RedisStoreSettings,
    ResolvedGroup,
    SimulatorSourceSettings,
    WebhookSinkSettings,
    file_format,
    group_layouts,
    record_format,
)
from agent.settings.connections import cluster_of, server_of, sink_cluster, window_prefix
from connectors.append_log import AppendLog, FileAppendLog
from connectors.base import Sink, Source, WindowStore
from connectors.decoding import Decoder
from connectors.fanout import FanoutSink
from connectors.memory import MemoryWindowStore
from connectors.records import DEAD_LETTERS, EVENTS, STATES

if TYPE_CHECKING:
    from anchormoe import Predictor

_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Parts:
    """What is used instead of what the settings say: an offline twin has another source, store and sink."""

    source: Source | None = None
    store: WindowStore | None = None
    sink: Sink | None = None
    pace: PipelineLimits | None = None
    journal: AppendLog | None = None


def build(
    plant: LoadedPlant,
    *,
    observer: Observer | None = None,
    tally: Counters | None = None,
    load_model: LoadModel | None = None,
    parts: Parts | None = None,
) -> Pipeline:
    """Everything `run` needs. Models are loaded and checked here, before anything is connected."""
    settings, parts = plant.settings, parts or Parts()
    load, tally, vitals = load_model or model_loader(settings), tally or Counters(), RuntimeStatus()
    groups = {group.name: watched_of(group, settings, load(group.bundle)) for group in plant.groups}
    return Pipeline(
        source=parts.source or source_of(settings),
        store=parts.store or store_of(settings),
        sink=parts.sink or sink_of(settings, tally),
        decoder=Decoder(group_layouts(plant.groups), record_format(settings.records)),
        groups=groups,
        pace=parts.pace or _pace(settings),
        observer=observer,
        tally=tally,
        vitals=vitals,
        models=_reloading(plant, groups, load_model or fresh_loader(settings), vitals, parts.journal),
    )


def _reloading(
    plant: LoadedPlant, groups: Mapping[str, Watched], load: LoadModel, vitals: RuntimeStatus, journal: AppendLog | None
) -> ModelReloader | None:
    """None where the plant has no directory of bundles: then the configured models stay."""
    if plant.settings.models is None:
        return None
    candidates = candidates_of(plant, load)
    reloadable = {name: ReloadableGroup(watched, candidates[name]) for name, watched in groups.items()}
    return ModelReloader(journal or journal_of(plant.settings), reloadable, vitals)


def candidates_of(plant: LoadedPlant, load: LoadModel | None = None) -> dict[str, CompatibleBundles]:
    """What each group takes. Raises SettingsError where no bundle can take over."""
    models = plant.settings.models
    if models is None:
        raise SettingsError("models: missing; name the directory of the bundles that may take over")
    fresh = load or fresh_loader(plant.settings)
    pairs = zip(plant.settings.groups, plant.groups, strict=True)
    return {running.name: CompatibleBundles(models.directory, stated, running, fresh) for stated, running in pairs}


def journal_of(settings: Plant) -> AppendLog:
    """Where activations are kept: beside the events in Kafka, else in a file."""
    if settings.models is None:
        raise SettingsError("models: missing; name the directory of the bundles that may take over")
    sink = settings.kafka_sink
    if sink is None:
        return FileAppendLog(settings.models.activations_file)
    from connectors.kafka.compacted_log import CompactedLog

    topic = sink.topics.activations or f"{settings.namespace}-activations"
    return CompactedLog(sink_cluster(sink), topic)


def watched_of(group: ResolvedGroup, settings: Plant, predictor: "Predictor") -> Watched:
    emission = settings.emission
    heartbeat = 0 if emission.heartbeat is None else emission.heartbeat // group.grid.period_ns
    configured = active_model(group, predictor)
    return Watched(
        name=group.name,
        channels=group.channel_names,
        grid=group.grid,
        shape=group.shape,
        idle_after=group.idle_after,
        rebuild_horizon=group.rebuild_horizon,
        max_assets=min(group.max_assets, settings.limits.assets_per_partition),
        judge=configured.judge,
        model=configured.model,
        publishing=Publishing(
            namespace=settings.namespace,
            emission=Emission(emission.policy, heartbeat),
            evidence=EvidencePolicy(emission.evidence_share, emission.max_patches),
            channel_method=None if emission.channels == "none" else predictor.channel_method,
        ),
        forget_after=group.forget_after,
    )


def source_of(settings: Plant) -> Source:
    source = settings.source
    match source:
        case SimulatorSourceSettings():
            return _simulator(source)
        case KafkaSourceSettings():
            return _kafka_source(settings, source)
        case FileSourceSettings():
            return _file_source(settings, source)
        case MemorySourceSettings():
            raise SettingsError("source.kind: memory has no records of its own; embed the pipeline to use it")
        case _:
            assert_never(source)


def store_of(settings: Plant) -> WindowStore:
    store = settings.store
    match store:
        case MemoryStoreSettings():
            return MemoryWindowStore()
        case RedisStoreSettings():
            return _redis_store(settings, store)
        case _:
            assert_never(store)


def sink_of(settings: Plant, tally: Counters) -> Sink:
    """All configured sinks as one; the terminal is an observer, not a sink, because it shows windows too."""
    keepers = [_keeper(sink) for sink in settings.sinks if isinstance(sink, JsonlSinkSettings | KafkaSinkSettings)]
    webhooks = [sink for sink in settings.sinks if isinstance(sink, WebhookSinkSettings)]
    if not webhooks:
        return FanoutSink(keepers)
    if not keepers:
        raise SettingsError("sinks: a webhook needs a kafka or jsonl sink beside it, for events its receiver refuses")
    return FanoutSink(keepers, afterwards=_webhooks(webhooks, FanoutSink(keepers), tally))


def _keeper(sink: JsonlSinkSettings | KafkaSinkSettings) -> Sink:
    match sink:
        case JsonlSinkSettings():
            from connectors.jsonl import JsonlSink

            return JsonlSink(sink.directory, max_bytes=sink.max_bytes, keep=sink.keep)
        case KafkaSinkSettings():
            return _kafka_sink(sink)
        case _:
            assert_never(sink)


def _webhooks(sinks: Iterable[WebhookSinkSettings], keeper: Sink, tally: Counters) -> list[Sink]:
    """What a receiver refuses is a dead letter in every sink that keeps things."""
    from agent.runtime.undelivered import UndeliveredEvents
    from connectors.webhook import Patience, Receiver, WebhookSink

    def webhook(sink: WebhookSinkSettings) -> Sink:
        tries, token = sink.retries, sink.token.get_secret_value() if sink.token else None
        patience = Patience(tries.attempts, tries.first_pause / _NS_PER_S, tries.longest_pause / _NS_PER_S)
        return WebhookSink(Receiver(sink.url, token, sink.timeout / _NS_PER_S), refusals.keep, patience=patience)

    refusals = UndeliveredEvents(keeper, tally)
    return [webhook(sink) for sink in sinks]


def _simulator(source: SimulatorSourceSettings) -> Source:
    from connectors.simulator import CLEAN, CorruptionSettings, SimulatorSource
    from connectors.simulator.plants import KINDS, SimulatedAsset

    assets = [SimulatedAsset(asset.id, KINDS[asset.kind], source.seed) for asset in source.assets]
    return SimulatorSource(
        assets, corruption=CorruptionSettings() if source.dirt else CLEAN, speed=source.speed, samples=source.limit
    )


def _file_source(settings: Plant, source: FileSourceSettings) -> Source:
    from connectors.files.source import FileSource, matching_files

    paths, form = matching_files(source.paths), file_format(settings, source)
    return FileSource(paths, form, single_partition=source.single_partition, positions=source.positions)


def _kafka_source(settings: Plant, source: KafkaSourceSettings) -> Source:
    from connectors.kafka.source import KafkaSource, Subscription

    times = source.timeouts
    subscription = Subscription(
        topics=source.topics,
        group=settings.consumer_group,
        start_from=source.start_from,
        instance_id=source.instance_id,
        session_ms=times.session // _NS_PER_MS,
        heartbeat_ms=times.heartbeat // _NS_PER_MS,
        rebalance_ms=times.rebalance // _NS_PER_MS,
        max_poll_ms=times.max_poll_interval // _NS_PER_MS,
        request_ms=times.request // _NS_PER_MS,
    )
    return KafkaSource(cluster_of(source.bootstrap, source.security), subscription)


def _kafka_sink(sink: KafkaSinkSettings) -> Sink:
    from connectors.kafka.sink import Delivery, KafkaSink

    topics: Mapping[str, str] = {
        EVENTS: sink.topics.events,
        STATES: sink.topics.states,
        DEAD_LETTERS: sink.topics.dead_letters,
    }
    compression = None if sink.compression == "none" else sink.compression
    delivery = Delivery(topics, timeout_ms=sink.timeout // _NS_PER_MS, compression=compression)
    return KafkaSink(sink_cluster(sink), delivery)


def _redis_store(settings: Plant, store: RedisStoreSettings) -> WindowStore:
    from connectors.redis.window_store import RedisWindowStore

    return RedisWindowStore(server_of(store), prefix=window_prefix(settings, store), ttl_s=store.ttl / _NS_PER_S)


def _pace(settings: Plant) -> PipelineLimits:
    return PipelineLimits(
        max_records=settings.limits.max_batch_records,
        in_flight=settings.limits.in_flight_batches,
        queue_windows=settings.limits.queue_windows,
        model_batch=settings.inference.batch,
        model_wait_s=settings.inference.max_wait / _NS_PER_S,
        endurance=_endurance(settings),
        checkpoint_every_s=settings.checkpoint.every / _NS_PER_S,
        checkpoint_records=settings.checkpoint.records,
        revoke_deadline_s=settings.checkpoint.revoke_deadline / _NS_PER_S,
        stop_deadline_s=settings.checkpoint.stop_deadline / _NS_PER_S,
    )


def _endurance(settings: Plant) -> OutagePolicy:
    store = settings.store
    if not isinstance(store, RedisStoreSettings):
        return OutagePolicy()
    return OutagePolicy(store.pause_after / _NS_PER_S, store.exit_after / _NS_PER_S)
