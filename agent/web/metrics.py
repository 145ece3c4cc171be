"""Counts of refused requests, for Prometheus."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.web.guard import Refusals


class RefusalCollector(Collector):
    """Requests that the guard of a server refused, by reason."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily("anchormoe_http_refused", "Refused requests, by reason", labels=["reason"])
        for reason, count in sorted(self._refusals.counts.items()):
            family.add_metric([reason], count)
        yield family
