"""The alarms' figures for Prometheus, with the standard's own: rate, flood, chattering, stale."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from agent.alarms.core.alarm import Alarm
from agent.alarms.core.catalogue import DAY_NS, Catalogue
from agent.alarms.core.console import Console
from agent.alarms.core.transaction import FLOOD_PRIORITY
from agent.alarms.counters import AlarmCounters
from agent.alarms.kpis import BAD_ACTORS

Consoles = Callable[[], Iterable[Console]]


class AlarmCollector(Collector):
    """Reads the worker's consoles when asked; nothing is kept beside them."""

    def __init__(
        self, tally: AlarmCounters, consoles: Consoles, catalogue: Catalogue, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._tally, self._consoles = tally, consoles
        self._catalogue, self._clock_ns = catalogue, clock_ns

    def collect(self) -> Iterator[Metric]:
        yield from self._totals()
        yield from self._levels(list(self._consoles()))

    def _totals(self) -> Iterator[Metric]:
        tally = self._tally
        inputs = "Inputs taken by the state machine."
        yield CounterMetricFamily("anchormoe_alarm_inputs", inputs, value=tally.inputs)
        yield _total("alarms_announced", "Alarms shown to an operator.", ["console", "priority"], tally.announced)
        yield _total("alarm_transitions", "Transitions by what happened.", ["change"], _keyed(tally.transitions))
        yield _total("alarm_inputs_ignored", "Inputs that changed nothing.", ["reason"], _keyed(tally.ignored))
        yield _total("alarm_webhooks", "Calls of receivers.", ["receiver", "outcome"], tally.webhooks)
        yield _total("alarms_fleeting", "Alarms that were over within a minute.", _C, _keyed(tally.fleeting))
        yield self._acknowledging()
        waiting = "Alarms a receiver has not accepted yet."
        yield _level("alarm_webhooks_pending", waiting, ["receiver"], _keyed(tally.webhooks_pending))

    def _acknowledging(self) -> Metric:
        meaning = "Seconds from being shown to being acknowledged."
        family = SummaryMetricFamily("anchormoe_alarm_acknowledge_seconds", meaning, labels=_C)
        for console, count in sorted(self._tally.acknowledged.items()):
            family.add_metric([console], count_value=count, sum_value=self._tally.acknowledge_s[console])
        return family

    def _levels(self, consoles: list[Console]) -> Iterator[Metric]:
        within, now = self._catalogue.limits.flood_within_ns, self._clock_ns()
        present: Counter[tuple[str, ...]] = Counter()
        for console in consoles:
            present.update((console.name, alarm.state, self._priority(alarm)) for alarm in console.alarms.values())
        yield _level("alarms_present", "Alarms by state.", ["console", "state", "priority"], present)
        rate = per_console(consoles, lambda one: sum(now - at <= within for at in one.memory.flood.latest_ns))
        yield _level("alarm_rate_10min", "Announced in the last ten minutes; counts to one above the limit.", _C, rate)
        floods = per_console(consoles, lambda one: int(one.memory.flood.on))
        yield _level("alarm_flood", "1 while a flood lasts.", _C, floods)
        noisy = per_console(consoles, lambda one: sum(alarm.chattering for alarm in one.alarms.values()))
        yield _level("alarms_chattering", "Alarms that come and go.", _C, noisy)
        stale = per_console(consoles, lambda one: sum(_is_stale(alarm, now) for alarm in one.alarms.values()))
        yield _level("alarms_stale", "Alarms active for more than a day.", _C, stale)
        yield _level("alarm_bad_actor_raises", "The ten most frequent alarms.", ["console", "alarm"], _actors(consoles))

    def _priority(self, alarm: Alarm) -> str:
        rule = self._catalogue.rules.get(alarm.rule)
        return rule.rationale.priority if rule else FLOOD_PRIORITY


_C = ["console"]


def per_console(consoles: list[Console], figure: Callable[[Console], int]) -> dict[tuple[str, ...], int]:
    return {(one.name,): figure(one) for one in consoles}


def _actors(consoles: list[Console]) -> dict[tuple[str, ...], int]:
    """Ten per console, so that the labels stay few; counted since the alarm is known."""
    found: dict[tuple[str, ...], int] = {}
    for one in consoles:
        often = Counter({alarm.id: alarm.occurrences for alarm in one.alarms.values() if alarm.occurrences})
        found |= {(one.name, alarm): count for alarm, count in often.most_common(BAD_ACTORS)}
    return found


def registry_of(
    tally: AlarmCounters, consoles: Consoles, catalogue: Catalogue, clock_ns: Callable[[], int] = time.time_ns
) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(AlarmCollector(tally, consoles, catalogue, clock_ns))
    return registry


def _is_stale(alarm: Alarm, now_ns: int) -> bool:
    return alarm.active and alarm.raised_ns is not None and now_ns - alarm.raised_ns > DAY_NS


def _keyed(values: "Counter[str] | dict[str, int]") -> dict[tuple[str, ...], int]:
    return {(name,): value for name, value in values.items()}


def _total(name: str, meaning: str, labels: list[str], values: "dict[tuple[str, ...], int]") -> Metric:
    family = CounterMetricFamily(f"anchormoe_{name}", meaning, labels=labels)
    return _filled(family, values)


def _level(name: str, meaning: str, labels: list[str], values: "dict[tuple[str, ...], int]") -> Metric:
    return _filled(GaugeMetricFamily(f"anchormoe_{name}", meaning, labels=labels), values)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, values: "dict[tuple[str, ...], int]") -> Metric:
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family
