"""The alarms' topics, for either feed: what is present, the outcomes of commands, and where commands are sent."""

import time

from agent.alarms.from_settings import catalogue_from_settings
from agent.alarms.wiring import streams
from agent.contracts.alarms import ALARMS, AUDIT, INPUTS
from agent.events.payloads import event_source
from agent.page.commands import CommandSender
from agent.page.state import PageState
from agent.page.topic_records import TopicRecords
from agent.page.topics_feed import Topic, TopicsFeed
from agent.settings import Plant
from agent.settings.connections import sink_cluster

_DAY_MS = 86_400_000


def alarm_topics(settings: Plant, records: TopicRecords, since_ms: int) -> list[Topic]:
    """None where the plant has no alarm rules."""
    if settings.alarms is None:
        return []
    names = streams(settings.alarms)
    return [
        Topic(names[ALARMS], records.alarm, optional=True),
        Topic(names[AUDIT], records.audit, since_ms, optional=True),
    ]


def alarm_feed(settings: Plant, state: PageState) -> TopicsFeed | None:
    """For a page inside an agent; None where there are no alarms, or no topics of them."""
    sink = settings.kafka_sink
    if sink is None or settings.alarms is None:
        return None
    records = TopicRecords(state, event_source(settings.namespace), lambda data: "")
    topics = alarm_topics(settings, records, time.time_ns() // 1_000_000 - _DAY_MS)
    return TopicsFeed(sink_cluster(sink), state, tuple(topics), alarms_only=True)


def make_sender(settings: Plant) -> CommandSender | None:
    """None where there is nothing to command."""
    sink, alarms = settings.kafka_sink, settings.alarms
    if sink is None or alarms is None:
        return None
    return CommandSender(sink_cluster(sink), streams(alarms)[INPUTS], catalogue_from_settings(settings, alarms))


def max_shelving_s(settings: Plant) -> float | None:
    return None if settings.alarms is None else settings.alarms.max_shelving.seconds
