"""Suppression by design: a cause hides its consequences, a parent asset its children. Pure."""

from collections.abc import Callable, Iterable, Iterator

from agent.alarms.core.alarm import Alarm
from agent.alarms.core.catalogue import Catalogue

AlarmsOf = Callable[[str], Iterable[Alarm]]
MAX_CAUSES = 100
"""One suffices to suppress; all of them must fit into a record."""


def suppressing_alarms(alarm: Alarm, catalogue: Catalogue, alarms_of: AlarmsOf) -> tuple[str, ...]:
    """The ids of the alarms that suppress this one now, at most `MAX_CAUSES`."""
    causes = sorted(other.id for other in _possible_causes(alarm, catalogue, alarms_of) if other.can_suppress)
    return tuple(causes[:MAX_CAUSES])


def _possible_causes(alarm: Alarm, catalogue: Catalogue, alarms_of: AlarmsOf) -> Iterator[Alarm]:
    rule = catalogue.rules.get(alarm.rule)
    if rule is None:
        return
    yield from (other for other in alarms_of(alarm.asset) if other.rule in rule.suppressed_by)
    for parent in ancestors(alarm.asset, catalogue):
        yield from (other for other in alarms_of(parent) if _hides_children(other, catalogue))


def dependents(alarm: Alarm, catalogue: Catalogue, assets: Iterable[str], alarms_of: AlarmsOf) -> Iterator[str]:
    """The ids of all existing alarms that this one may suppress."""
    yield from (other.id for other in alarms_of(alarm.asset) if other.id != alarm.id)
    if not _hides_children(alarm, catalogue):
        return
    for asset in assets:
        if alarm.asset in ancestors(asset, catalogue):
            yield from (other.id for other in alarms_of(asset))


def ancestors(asset: str, catalogue: Catalogue) -> tuple[str, ...]:
    """Parents and their parents; a cycle ends where it began."""
    found: list[str] = []
    parent = catalogue.parent_of(asset)
    while parent is not None and parent not in found and parent != asset:
        found.append(parent)
        parent = catalogue.parent_of(parent)
    return tuple(found)


def _hides_children(alarm: Alarm, catalogue: Catalogue) -> bool:
    rule = catalogue.rules.get(alarm.rule)
    return rule is not None and rule.hides_children
