"""From settings to the outside world: sources, window stores, sinks and the logs of activations and skipped records."""

from collections.abc import Iterable, Mapping
from typing import assert_never

from agent.errors import SettingsError
from agent.health.counters import Counters
from agent.settings import (
    FileSourceSettings,
    JsonlSinkSettings,
    KafkaSinkSettings,
    KafkaSourceSettings,
    MemorySourceSettings,
    MemoryStoreSettings,
    Plant,
    RedisStoreSettings,
    SimulatorSourceSettings,
    WebhookSinkSettings,
    file_format,
)
from agent.settings.connections import cluster_of, server_of, sink_cluster, window_prefix
from connectors.append_log import AppendLog, FileAppendLog
from connectors.base import Sink, Source, WindowStore
from connectors.fanout import FanoutSink
from connectors.memory import MemoryWindowStore
from connectors.records import DEAD_LETTERS, EVENTS, STATES


def make_source(settings: Plant) -> Source:
    source = settings.source
    match source:
        case SimulatorSourceSettings():
            return _simulator(source)
        case KafkaSourceSettings():
            return _kafka_source(settings, source)
        case FileSourceSettings():
            return _file_source(settings, source)
        case MemorySourceSettings():
            raise SettingsError("source.kind: memory is for programs that embed the pipeline; choose another kind")
        case _:
            assert_never(source)


def make_store(settings: Plant) -> WindowStore:
    store = settings.store
    match store:
        case MemoryStoreSettings():
            return MemoryWindowStore()
        case RedisStoreSettings():
            return _redis_store(settings, store)
        case _:
            assert_never(store)


def make_sink(settings: Plant, counters: Counters) -> Sink:
    """All configured sinks as one. The terminal is an observer and not a sink, because it shows windows too."""
    durable = [
        _durable_sink(sink, counters)
        for sink in settings.sinks
        if isinstance(sink, JsonlSinkSettings | KafkaSinkSettings)
    ]
    webhooks = [sink for sink in settings.sinks if isinstance(sink, WebhookSinkSettings)]
    if not webhooks:
        return FanoutSink(durable)
    if not durable:
        raise SettingsError(
            "sinks: a webhook needs a kafka or jsonl sink beside it, for events that it does not accept"
        )
    return FanoutSink(durable, afterwards=_webhooks(webhooks, FanoutSink(durable), counters))


def skip_log(settings: Plant) -> AppendLog | None:
    """Where requests to skip records are stored: beside the records; None for a source that is not Kafka."""
    source = settings.source
    if not isinstance(source, KafkaSourceSettings):
        return None
    from connectors.kafka.optional_log import OptionalLog

    return OptionalLog(cluster_of(source.bootstrap, source.security), source.skips or f"{settings.namespace}-skips")


def activation_log(settings: Plant) -> AppendLog:
    """Where activations are stored: beside the events in Kafka, or else in a file."""
    if settings.models is None:
        raise SettingsError("models: missing; set `directory` to the directory of the bundles that may be activated")
    sink = settings.kafka_sink
    if sink is None:
        return FileAppendLog(settings.models.activations_file)
    from connectors.kafka.compacted_log import CompactedLog

    topic = sink.topics.activations or f"{settings.namespace}-activations"
    return CompactedLog(sink_cluster(sink), topic)


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
        isolation=source.isolation,
        instance_id=source.instance_id,
        assignor=source.assignor,
        session_ms=times.session.milliseconds,
        heartbeat_ms=times.heartbeat.milliseconds,
        rebalance_ms=times.rebalance.milliseconds,
        max_poll_ms=times.max_poll_interval.milliseconds,
        request_ms=times.request.milliseconds,
    )
    return KafkaSource(cluster_of(source.bootstrap, source.security), subscription)


def _redis_store(settings: Plant, store: RedisStoreSettings) -> WindowStore:
    from connectors.redis.window_store import RedisWindowStore

    return RedisWindowStore(server_of(store), prefix=window_prefix(settings, store), ttl_s=store.ttl.seconds)


def _durable_sink(sink: JsonlSinkSettings | KafkaSinkSettings, counters: Counters) -> Sink:
    match sink:
        case JsonlSinkSettings():
            from connectors.jsonl import JsonlSink

            return JsonlSink(
                sink.directory,
                max_bytes=sink.max_bytes,
                keep=sink.keep,
                file_mode=int(sink.file_mode, 8),
                timeout_s=sink.timeout.seconds,
            )
        case KafkaSinkSettings():
            return _kafka_sink(sink, counters)
        case _:
            assert_never(sink)


def _kafka_sink(sink: KafkaSinkSettings, counters: Counters) -> Sink:
    from agent.runtime.oversized import shrink_message
    from connectors.kafka.sink import Delivery, KafkaSink, OversizePolicy

    topics: Mapping[str, str] = {
        EVENTS: sink.topics.events,
        STATES: sink.topics.states,
        DEAD_LETTERS: sink.topics.dead_letters,
    }
    compression = None if sink.compression == "none" else sink.compression
    delivery = Delivery(
        topics,
        timeout_ms=sink.timeout.milliseconds,
        compression=compression,
        max_message_bytes=sink.max_message_bytes,
    )
    return KafkaSink(sink_cluster(sink), delivery, OversizePolicy(shrink_message, counters.count_oversized))


def _webhooks(sinks: Iterable[WebhookSinkSettings], durable: Sink, counters: Counters) -> list[Sink]:
    """What a receiver does not accept becomes a dead letter in every durable sink."""
    from agent.runtime.undelivered import UndeliveredEvents
    from connectors.webhook import Receiver, WebhookSink

    def webhook(sink: WebhookSinkSettings) -> Sink:
        tries, token = sink.retries, sink.token.get_secret_value if sink.token else None
        pauses_s = (tries.first_pause.seconds, tries.longest_pause.seconds)
        receiver = Receiver(sink.url, token, sink.timeout.seconds, tries.attempts, *pauses_s)
        return WebhookSink(receiver, undelivered.keep)

    undelivered = UndeliveredEvents(durable, counters)
    return [webhook(sink) for sink in sinks]
