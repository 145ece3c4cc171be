"""Rules between the alarms and the rest of a plant. Pure."""

from collections.abc import Iterator, Sequence

from agent.settings.alarms import AlarmRule, Alarms
from agent.settings.groups import Group, overlap
from agent.settings.problems import Problem, warning
from agent.settings.sinks import Emission, KafkaSinkSettings, Sink
from agent.settings.sources import KafkaSourceSettings, Source
from agent.settings.units import Duration

Found = Iterator[Problem]


def alarms_are_rationalised(alarms: Alarms | None) -> Found:
    for at, rule in enumerate(alarms.rules if alarms else ()):
        if rule.missing:
            wrong = f"{rule.name} is not used, because it lacks {', '.join(rule.missing)}"
            yield warning(("alarms", "rules", at), wrong, "rationalise it, or remove it")


def alarms_need_a_topic(alarms: Alarms | None, sinks: Sequence[Sink]) -> Found:
    if alarms is not None and not any(isinstance(sink, KafkaSinkSettings) for sink in sinks):
        yield Problem(("alarms",), "no sink is of kind kafka, so there are no events to read", "add one")


def alarm_topics_are_apart(alarms: Alarms | None, sinks: Sequence[Sink], source: Source) -> Found:
    taken = {topic for sink in sinks if isinstance(sink, KafkaSinkSettings) for _, topic in sink.topics}
    taken |= set(source.topics) if isinstance(source, KafkaSourceSettings) else set()
    for name, topic in alarms.topics if alarms else ():
        if topic in taken:
            yield Problem(
                ("alarms", "topics", name), f"topic {topic} is used by a sink or the source", "choose another topic"
            )


def alarms_are_for_known_groups(alarms: Alarms | None, groups: Sequence[Group]) -> Found:
    known = {group.name for group in groups}
    for at, rule in enumerate(alarms.rules if alarms else ()):
        if rule.group not in known:
            right = f"name one of {', '.join(sorted(known))}"
            yield Problem(("alarms", "rules", at, "group"), f"there is no group {rule.group}", right)


def every_asset_has_a_console(alarms: Alarms | None, groups: Sequence[Group]) -> Found:
    if alarms is None:
        return
    shown = [pattern for console in alarms.consoles for pattern in console.assets]
    with_rules = {rule.group for rule in alarms.rules}
    for group in groups:
        for pattern in group.assets if group.name in with_rules else ():
            if not any(overlap(one, pattern) for one in shown):
                wrong = f"no console shows {pattern} of group {group.name}"
                yield Problem(("alarms", "consoles"), wrong, "add it to a console")


def delays_see_enough_events(alarms: Alarms | None, emission: Emission) -> Found:
    """With changes alone, a state that lasts cannot be told from an agent that stopped."""
    delays = [delay for rule in (alarms.rules if alarms else ()) for delay in _delays(rule)]
    if not delays or emission.policy == "all":
        return
    half = Duration(max(min(delays) // 2, 1))
    if emission.policy == "changes":
        wrong = "changes: alarms with delays need events while a state lasts"
        yield Problem(("emission", "policy"), wrong, f"use all, or changes+heartbeat with at most {half}")
    elif emission.heartbeat is not None and emission.heartbeat > half:
        wrong = f"{emission.heartbeat} is more than half of the shortest alarm delay, {min(delays)}"
        yield Problem(("emission", "heartbeat"), wrong, f"at most {half}")


def _delays(rule: AlarmRule) -> list[Duration]:
    no_data_after = rule.limit if rule.technical == "no_data" else None
    return [delay for delay in (rule.on_delay, rule.off_delay, no_data_after) if delay is not None]


ALARM_RULES = (
    alarms_are_rationalised,
    alarms_need_a_topic,
    alarm_topics_are_apart,
    alarms_are_for_known_groups,
    every_asset_has_a_console,
    delays_see_enough_events,
)
