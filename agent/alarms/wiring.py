"""From settings to the parts of the alarm worker. The only place here that knows them all."""

from collections.abc import Sequence
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
    from agent.alarms.webhooks import Receiver
    from agent.alarms.worker.app import AlarmWorker
    from agent.alarms.worker.settings import WorkerSettings

_YEAR_MS = 365 * 86_400_000
_WEEK_MS = 7 * 86_400_000
_ASKING_S = 10.0
_OUTAGES = {"login": "the login is refused", "tls": "no trusted connection", "unreachable": "not reachable"}


def alarms_in(plant: Plant) -> Alarms:
    """Raises SettingsError where the plant has none."""
    if plant.alarms is None:
        raise SettingsError("alarms: missing; say what may alarm, see configs/alarms.yaml")
    return plant.alarms


def events_sink(plant: Plant) -> KafkaSinkSettings:
    """Where the events are. Raises SettingsError."""
    sinks = [sink for sink in plant.sinks if isinstance(sink, KafkaSinkSettings)]
    if not sinks:
        raise SettingsError("sinks: none is of kind kafka, so there are no events to read")
    return sinks[0]


def cluster_in(plant: Plant) -> Cluster:
    sink = events_sink(plant)
    return cluster_of(sink.bootstrap, sink.security or KafkaSecurity())


def streams(alarms: Alarms) -> dict[str, str]:
    topics = alarms.topics
    return {INPUTS: topics.inputs, TRANSITIONS: topics.transitions, ALARMS: topics.alarms, AUDIT: topics.audit}


def topic_plans(plant: Plant) -> Sequence[TopicPlan]:
    """Inputs for a week, transitions and the audit for a year, the present alarms for ever.

    The events, too: a worker that starts before the agent would wait for a topic that nobody makes.
    """
    alarms, events = alarms_in(plant), events_sink(plant).topics.events
    kept = {INPUTS: _WEEK_MS, TRANSITIONS: _YEAR_MS, AUDIT: _YEAR_MS}
    configs = {name: {"retention.ms": str(ms)} for name, ms in kept.items()} | {ALARMS: {"cleanup.policy": "compact"}}
    own = [
        TopicPlan(topic, alarms.partitions, alarms.replication, configs[name])
        for name, topic in streams(alarms).items()
    ]
    return [TopicPlan(events, alarms.partitions, alarms.replication, exact=False), *own]


async def prepare(plant: Plant) -> None:
    """The topics are there. Raises ConnectorError, which says whether address, certificate or login is the trouble."""
    from connectors.kafka.admin import ensure_topics
    from connectors.kafka.inspection import inspect_cluster

    cluster = cluster_in(plant)
    found = await inspect_cluster(cluster, (), timeout_s=_ASKING_S)
    if isinstance(found, Outage):
        raise ConnectorError(f"Kafka at {cluster.bootstrap}: {_OUTAGES[found.kind]}: {found.reason}")
    await ensure_topics(cluster, topic_plans(plant))


def build_worker(plant: Plant, *, http_port: int | None = None) -> "AlarmWorker":
    """The worker with all that runs beside it."""
    from agent.alarms.worker.app import AlarmWorker

    alarms = alarms_in(plant)
    shell = AlarmWorker(_shell_settings(plant, alarms), catalogue_from_settings(plant, alarms))
    if alarms.http is not None:
        _add_pages(shell, alarms.http, alarms.http.port if http_port is None else http_port)
    for webhook in alarms.webhooks:
        _add_webhook(shell, plant, webhook)
    return shell


def _shell_settings(plant: Plant, alarms: Alarms) -> "WorkerSettings":
    from agent.alarms.worker.settings import WorkerSettings

    return WorkerSettings(
        app_id=group_of(plant),
        cluster=cluster_in(plant),
        events_topic=events_sink(plant).topics.events,
        topics=streams(alarms),
        partitions=alarms.partitions,
        replication=alarms.replication,
        tick_s=alarms.tick.seconds,
        session_s=alarms.session.seconds,
        no_progress_s=plant.limits.no_progress.seconds,
        directory=alarms.directory,
    )


def group_of(plant: Plant) -> str:
    """The consumer group of the workers, and the beginning of their changelog's name."""
    return f"anchormoe-alarms-{plant.namespace}"


def _add_pages(shell: "AlarmWorker", http: Http, port: int) -> None:
    """The address is taken now, so that a taken one is known before anything is connected."""
    from agent.alarms.http import AlarmPages
    from agent.alarms.metrics import registry_of
    from agent.health.http import listen, serve

    pages = AlarmPages(
        shell.catalogue,
        lambda: shell.desk.consoles,
        shell.submit,
        registry_of(shell.tally, lambda: shell.desk.consoles, shell.catalogue),
        token=_secret(http.token),
        ready=lambda: shell.ready,
        alive=lambda: shell.standstill.alive,
    )
    listener = listen(http.host, port)
    shell.beside(lambda: serve(pages.app(), listener))


def _add_webhook(shell: "AlarmWorker", plant: Plant, webhook: AlarmWebhook) -> None:
    from agent.alarms.webhooks import AlarmPost, WebhookSender

    receiver = receiver_of(webhook)
    post = AlarmPost(receiver, plant.namespace, shell.tally)
    topic, cluster = streams(alarms_in(plant))[ALARMS], cluster_in(plant)
    sender = WebhookSender(cluster, topic, f"{group_of(plant)}-webhook", receiver, post, shell.tally)
    shell.beside(sender.run)


def receiver_of(webhook: AlarmWebhook) -> "Receiver":
    from agent.alarms.webhooks import Receiver

    retries = webhook.retries
    return Receiver(
        name=webhook.name,
        url=webhook.url,
        format=webhook.format,
        priorities=frozenset(webhook.priorities),
        token=_secret(webhook.token),
        secret=_secret(webhook.secret),
        timeout_s=webhook.timeout.seconds,
        attempts=retries.attempts,
        first_pause_s=retries.first_pause.seconds,
        longest_pause_s=retries.longest_pause.seconds,
        repeat_s=webhook.repeat_every.seconds,
        max_alerts=webhook.max_alerts,
    )


def _secret(given: SecretStr | None) -> str | None:
    return None if given is None else given.get_secret_value()
