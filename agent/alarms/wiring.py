"""Builds the alarm worker, its HTTP API and its webhooks from the settings."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pydantic import SecretStr

from agent.alarms.from_settings import catalogue_from_settings
from agent.contracts.alarms import ALARMS, AUDIT, INPUTS, TRANSITIONS
from agent.errors import SettingsError
from agent.settings import Alarms, AlarmWebhook, Http, KafkaSecurity, KafkaSinkSettings, Plant
from agent.settings.connections import cluster_of
from connectors.errors import ConnectorError
from connectors.kafka.admin import TopicPlan
from connectors.kafka.cluster import Cluster
from connectors.probe import Outage

if TYPE_CHECKING:
    from agent.alarms.webhooks import AlarmReceiver
    from agent.alarms.worker.app import AlarmWorker
    from agent.alarms.worker.settings import WorkerSettings

_YEAR_MS = 365 * 86_400_000
_WEEK_MS = 7 * 86_400_000
_INSPECTION_TIMEOUT_S = 10.0
_OUTAGES = {"login": "the login is refused", "tls": "no trusted connection", "unreachable": "not reachable"}


def alarms_in(plant: Plant) -> Alarms:
    """Raises SettingsError where the plant has none."""
    if plant.alarms is None:
        raise SettingsError("alarms: missing; add the section with your alarm rules, see configs/alarms.yaml")
    return plant.alarms


def events_sink(plant: Plant) -> KafkaSinkSettings:
    """The sink that has the events. Raises SettingsError."""
    sinks = [sink for sink in plant.sinks if isinstance(sink, KafkaSinkSettings)]
    if not sinks:
        raise SettingsError("sinks: none is of kind kafka, so there are no events to read; add one")
    return sinks[0]


def cluster_in(plant: Plant) -> Cluster:
    sink = events_sink(plant)
    return cluster_of(sink.bootstrap, sink.security or KafkaSecurity())


def streams(alarms: Alarms) -> dict[str, str]:
    """Topics by stream name."""
    topics = alarms.topics
    return {INPUTS: topics.inputs, TRANSITIONS: topics.transitions, ALARMS: topics.alarms, AUDIT: topics.audit}


def topic_plans(plant: Plant) -> Sequence[TopicPlan]:
    """Inputs are kept for a week, transitions and audit for a year, the present alarms compacted.

    The events topic is included, because a worker may start before the agent that would create it.
    """
    alarms, events = alarms_in(plant), events_sink(plant).topics.events
    kept = {INPUTS: _WEEK_MS, TRANSITIONS: _YEAR_MS, AUDIT: _YEAR_MS}
    configs = {name: {"retention.ms": str(ms)} for name, ms in kept.items()} | {ALARMS: {"cleanup.policy": "compact"}}
    own = [
        TopicPlan(topic, alarms.partitions, alarms.replication, configs[name])
        for name, topic in streams(alarms).items()
    ]
    return [TopicPlan(events, alarms.partitions, alarms.replication, exact=False), *own]


async def prepare_topics(plant: Plant) -> None:
    """Creates missing topics. Raises ConnectorError, which tells an address from a certificate from a login problem."""
    from connectors.kafka.admin import ensure_topics
    from connectors.kafka.inspection import inspect_cluster

    cluster = cluster_in(plant)
    found = await inspect_cluster(cluster, (), timeout_s=_INSPECTION_TIMEOUT_S)
    if isinstance(found, Outage):
        raise ConnectorError(f"Kafka at {cluster.bootstrap}: {_OUTAGES[found.kind]}: {found.reason}")
    await ensure_topics(cluster, topic_plans(plant))


def build_worker(plant: Plant, *, http_port: int | None = None) -> "AlarmWorker":
    """The worker with its HTTP API and webhooks as helpers."""
    from agent.alarms.worker.app import AlarmWorker

    alarms = alarms_in(plant)
    worker = AlarmWorker(_worker_settings(plant, alarms), catalogue_from_settings(plant, alarms))
    if alarms.http is not None:
        _add_api(worker, alarms.http, alarms.http.port if http_port is None else http_port)
    for webhook in alarms.webhooks:
        _add_webhook(worker, plant, webhook)
    return worker


def _worker_settings(plant: Plant, alarms: Alarms) -> "WorkerSettings":
    from agent.alarms.worker.settings import WorkerSettings

    return WorkerSettings(
        app_id=consumer_group(plant),
        cluster=cluster_in(plant),
        events_topic=events_sink(plant).topics.events,
        topics=streams(alarms),
        partitions=alarms.partitions,
        replication=alarms.replication,
        tick_s=alarms.tick.seconds,
        session_s=alarms.session.seconds,
        no_progress_s=plant.limits.no_progress.seconds,
        directory=alarms.directory,
        namespace=plant.namespace,
    )


def consumer_group(plant: Plant) -> str:
    """Also the prefix of the changelog topic's name."""
    return f"anchormoe-alarms-{plant.namespace}"


def _add_api(worker: "AlarmWorker", http: Http, port: int) -> None:
    """Binds the port now, so that a port in use is reported before anything is connected."""
    from agent.alarms.http import AlarmApi
    from agent.alarms.metrics import alarm_registry
    from agent.web.from_settings import access_of, serving_of
    from agent.web.metrics import RefusalCollector
    from agent.web.server import listen, serve

    serving = serving_of(http)
    registry = alarm_registry(worker.counters, lambda: worker.console_worker.consoles, worker.catalogue)
    registry.register(RefusalCollector(serving.refusals))
    api = AlarmApi(
        worker.catalogue,
        lambda: worker.console_worker.consoles,
        worker.submit,
        registry,
        access=access_of(http),
        ready=lambda: worker.ready,
        alive=lambda: worker.stall.alive,
    )
    listener = listen(http.host, port)
    worker.add_helper(lambda: serve(api.app(), listener, serving))


def _add_webhook(worker: "AlarmWorker", plant: Plant, webhook: AlarmWebhook) -> None:
    from agent.alarms.webhooks import AlarmDelivery, AlarmSender

    receiver = alarm_receiver(webhook)
    delivery = AlarmDelivery(receiver, plant.namespace, worker.counters)
    topic, cluster = streams(alarms_in(plant))[ALARMS], cluster_in(plant)
    sender = AlarmSender(cluster, topic, f"{consumer_group(plant)}-webhook", receiver, delivery, worker.counters)
    worker.add_helper(sender.run)


def alarm_receiver(webhook: AlarmWebhook) -> "AlarmReceiver":
    from agent.alarms.webhooks import AlarmReceiver
    from connectors.webhook import Receiver

    return AlarmReceiver(
        name=webhook.name,
        receiver=Receiver(
            webhook.url,
            token=_secret(webhook.token),
            timeout_s=webhook.timeout.seconds,
            attempts=webhook.retries.attempts,
            first_pause_s=webhook.retries.first_pause.seconds,
            longest_pause_s=webhook.retries.longest_pause.seconds,
        ),
        format=webhook.format,
        priorities=frozenset(webhook.priorities),
        secret=_secret(webhook.secret),
        repeat_s=webhook.repeat_every.seconds,
        max_alerts=webhook.max_alerts,
    )


def _secret(given: SecretStr | None) -> Callable[[], str] | None:
    """Asked for with every use, so that a secret in a file can be rotated."""
    return None if given is None else given.get_secret_value
