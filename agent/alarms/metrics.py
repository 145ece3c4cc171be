"""Prometheus metrics of the alarm worker, with the figures of ISA-18.2: rate, flood, chattering, stale."""

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
    """Computed from the worker's consoles and counters at every scrape."""

    def __init__(
        self,
        counters: AlarmCounters,
        consoles: Consoles,
        catalogue: Catalogue,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._counters, self._consoles = counters, consoles
        self._catalogue, self._clock_ns = catalogue, clock_ns

    def collect(self) -> Iterator[Metric]:
        yield from self._counter_metrics()
        yield from self._gauge_metrics(list(self._consoles()))

    def _counter_metrics(self) -> Iterator[Metric]:
        counters = self._counters
        inputs = "Inputs applied by the state machine."
        yield CounterMetricFamily("anchormoe_alarm_inputs", inputs, value=counters.inputs)
        yield _counter(
            "alarms_announced", "Alarms announced to an operator.", ["console", "priority"], counters.announced
        )
        yield _counter(
            "alarm_transitions", "Transitions by kind of change.", ["change"], _by_label(counters.transitions)
        )
        yield _counter("alarm_inputs_ignored", "Inputs that changed nothing.", ["reason"], _by_label(counters.ignored))
        requests = "Webhook requests by receiver and outcome."
        yield _counter("alarm_webhooks", requests, ["receiver", "outcome"], counters.webhooks)
        yield _counter(
            "alarms_fleeting", "Alarms that returned within a minute.", _CONSOLE, _by_label(counters.fleeting)
        )
        yield self._acknowledge_times()
        pending = "Alarms that the receiver has not accepted yet."
        yield _gauge("alarm_webhooks_pending", pending, ["receiver"], _by_label(counters.webhooks_pending))

    def _acknowledge_times(self) -> Metric:
        meaning = "Seconds from announcement to acknowledgement."
        family = SummaryMetricFamily("anchormoe_alarm_acknowledge_seconds", meaning, labels=_CONSOLE)
        for console, count in sorted(self._counters.acknowledged.items()):
            family.add_metric([console], count_value=count, sum_value=self._counters.acknowledge_s[console])
        return family

    def _gauge_metrics(self, consoles: list[Console]) -> Iterator[Metric]:
        within, now = self._catalogue.limits.flood_within_ns, self._clock_ns()
        present: Counter[tuple[str, ...]] = Counter()
        for console in consoles:
            present.update((console.name, alarm.state, self._priority(alarm)) for alarm in console.alarms.values())
        yield _gauge("alarms_present", "Alarms by state.", ["console", "state", "priority"], present)
        rate = _per_console(consoles, lambda one: sum(now - at <= within for at in one.state.flood.latest_ns))
        recent = "Alarms announced in the last ten minutes, counted up to one above the flood limit."
        yield _gauge("alarm_rate_10min", recent, _CONSOLE, rate)
        floods = _per_console(consoles, lambda one: int(one.state.flood.on))
        yield _gauge("alarm_flood", "1 during a flood, else 0.", _CONSOLE, floods)
        chattering = _per_console(consoles, lambda one: sum(alarm.chattering for alarm in one.alarms.values()))
        yield _gauge("alarms_chattering", "Alarms that are chattering.", _CONSOLE, chattering)
        stale = _per_console(consoles, lambda one: sum(_is_stale(alarm, now) for alarm in one.alarms.values()))
        yield _gauge("alarms_stale", "Alarms active for more than a day.", _CONSOLE, stale)
        frequent = "Raises of the ten most frequent alarms."
        yield _gauge("alarm_bad_actor_raises", frequent, ["console", "alarm"], _bad_actors(consoles))

    def _priority(self, alarm: Alarm) -> str:
        rule = self._catalogue.rules.get(alarm.rule)
        return rule.rationale.priority if rule else FLOOD_PRIORITY


_CONSOLE = ["console"]


def _per_console(consoles: list[Console], figure: Callable[[Console], int]) -> dict[tuple[str, ...], int]:
    return {(one.name,): figure(one) for one in consoles}


def _bad_actors(consoles: list[Console]) -> dict[tuple[str, ...], int]:
    """Ten per console, to bound the number of labels; counted since the alarm first existed."""
    found: dict[tuple[str, ...], int] = {}
    for one in consoles:
        often = Counter({alarm.id: alarm.occurrences for alarm in one.alarms.values() if alarm.occurrences})
        found |= {(one.name, alarm): count for alarm, count in often.most_common(BAD_ACTORS)}
    return found


def alarm_registry(
    counters: AlarmCounters, consoles: Consoles, catalogue: Catalogue, clock_ns: Callable[[], int] = time.time_ns
) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(AlarmCollector(counters, consoles, catalogue, clock_ns))
    return registry


def _is_stale(alarm: Alarm, now_ns: int) -> bool:
    return alarm.active and alarm.raised_ns is not None and now_ns - alarm.raised_ns > DAY_NS


def _by_label(values: "Counter[str] | dict[str, int]") -> dict[tuple[str, ...], int]:
    return {(name,): value for name, value in values.items()}


def _counter(name: str, meaning: str, labels: list[str], values: "dict[tuple[str, ...], int]") -> Metric:
    family = CounterMetricFamily(f"anchormoe_{name}", meaning, labels=labels)
    return _add_samples(family, values)


def _gauge(name: str, meaning: str, labels: list[str], values: "dict[tuple[str, ...], int]") -> Metric:
    return _add_samples(GaugeMetricFamily(f"anchormoe_{name}", meaning, labels=labels), values)


def _add_samples(family: CounterMetricFamily | GaugeMetricFamily, values: "dict[tuple[str, ...], int]") -> Metric:
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family
