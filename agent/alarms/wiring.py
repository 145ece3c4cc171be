"""From settings to the parts of the alarm worker. The only place here that knows them all."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.alarms.catalogue import catalogue_of
from agent.alarms.publishing import ALARMS, AUDIT, INPUTS, TRANSITIONS
from agent.app import cluster_of
from agent.errors import SettingsError
from agent.settings import Alarms, KafkaSecurity, KafkaSink, Plant
from connectors.kafka.cluster import Cluster
from connectors.kafka.topics import TopicPlan

if TYPE_CHECKING:
    from agent.alarms.faust_app import Shell

_YEAR_MS = 365 * 86_400_000
_WEEK_MS = 7 * 86_400_000


def alarms_in(plant: Plant) -> Alarms:
    """Raises SettingsError where the plant has none."""
    if plant.alarms is None:
        raise SettingsError("alarms: missing; say what may alarm, see configs/alarms.yaml")
    return plant.alarms


def events_sink(plant: Plant) -> KafkaSink:
    """Where the events are. Raises SettingsError."""
    sinks = [sink for sink in plant.sinks if isinstance(sink, KafkaSink)]
    if not sinks:
        raise SettingsError("sinks: none is of kind kafka, so there are no events to read")
    return sinks[0]


def cluster_in(plant: Plant) -> Cluster:
    sink = events_sink(plant)
    return cluster_of(sink.bootstrap, sink.security or KafkaSecurity())


def streams(alarms: Alarms) -> dict[str, str]:
    topics = alarms.topics
    return {INPUTS: topics.inputs, TRANSITIONS: topics.transitions, ALARMS: topics.alarms, AUDIT: topics.audit}


def topic_plans(alarms: Alarms) -> Sequence[TopicPlan]:
    """Inputs for a week, transitions and the audit for a year, the present alarms for ever."""
    kept = {INPUTS: _WEEK_MS, TRANSITIONS: _YEAR_MS, AUDIT: _YEAR_MS}
    configs = {name: {"retention.ms": str(ms)} for name, ms in kept.items()} | {ALARMS: {"cleanup.policy": "compact"}}
    return [
        TopicPlan(topic, alarms.partitions, alarms.replication, configs[name])
        for name, topic in streams(alarms).items()
    ]


def shell_of(plant: Plant, *, http_port: int | None = None) -> "Shell":
    """The worker with all that runs beside it."""
    from agent.alarms.faust_app import Shell, ShellSettings

    alarms, sink = alarms_in(plant), events_sink(plant)
    return Shell(
        ShellSettings(
            app_id=f"anchormoe-alarms-{plant.namespace}",
            cluster=cluster_in(plant),
            events_topic=sink.topics.events,
            topics=streams(alarms),
            partitions=alarms.partitions,
            replication=alarms.replication,
            tick_s=alarms.tick.seconds,
            session_s=alarms.session.seconds,
        ),
        catalogue_of(plant, alarms),
    )
