"""Tally and vitals in the words of Prometheus: read when scraped, base units, no label per asset."""

import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from agent.dead_letters.letter import LATE
from agent.health.counters import Counters
from agent.health.status import Histogram, RuntimeStatus
from connectors.records import Partition

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PARTITION = ("topic", "partition")
_NS_PER_S = 1e9


class AgentCollector(Collector):
    """Asks nothing of the agent between two scrapes. `wall_s` is the wall clock in epoch seconds."""

    def __init__(self, tally: Counters, vitals: RuntimeStatus, wall_s: Callable[[], float] = time.time) -> None:
        self._tally, self._vitals, self._wall_s = tally, vitals, wall_s

    def collect(self) -> Iterable[Metric]:
        yield InfoMetricFamily("anchormoe_build", "What runs here.", {"version": version("anchormoe-agent")})
        yield from self._work_done()
        yield from self._trouble()
        yield from self._partitions()
        yield from self._condition()
        yield from self._durations_and_sizes()

    def _work_done(self) -> Iterator[Metric]:
        tally, vitals = self._tally, self._vitals
        yield _count("records", "Records read.", tally.records)
        yield _count("windows", "Windows that became due.", tally.windows)
        yield _counts("events", "Events published.", "type", tally.events)
        yield _count("checkpoints", "Checkpoints that were stored and committed.", tally.checkpoints)
        yield _count("checkpoint_bytes", "Bytes of windows and headers sent to the store.", vitals.checkpoint_bytes)
        yield _count("forgotten_assets", "Assets whose windows were freed after a long silence.", tally.forgotten)
        yield _counts("reloads", "Bundles loaded while running, by outcome.", "outcome", vitals.reloads)

    def _trouble(self) -> Iterator[Metric]:
        tally, vitals = self._tally, self._vitals
        yield _counts("dead_letters", "Records that could not be used.", "reason", tally.dead_letters)
        meaning = "Skipped as the settings ask: records of unknown assets, unknown channels in records."
        yield _counts("ignored", meaning, "reason", tally.ignored)
        yield _count("late_records", "Records that came after their window.", tally.dead_letters[LATE])
        yield _count("rejected_claims", "Writes refused: another owner had the partition.", vitals.rejected_claims)
        yield _count("source_restarts", "Restarts of the source by the watchdog.", vitals.source_restarts)

    def _partitions(self) -> Iterator[Metric]:
        holdings, now_ns = self._vitals.holdings, self._wall_s() * _NS_PER_S
        position = {at: held.position for at, held in holdings.items() if held.position is not None}
        behind = {
            at: (now_ns - held.newest_ns) / _NS_PER_S for at, held in holdings.items() if held.newest_ns is not None
        }
        yield _per_partition("lag_records", "Records still to be read.", self._vitals.lag or {})
        yield _per_partition("position", "Next offset to read.", position)
        yield _per_partition("owner_epoch", "Epoch of the claim.", {at: held.epoch for at, held in holdings.items()})
        yield _per_partition("watermark_delay_seconds", "Newest event time behind the wall clock.", behind)

    def _condition(self) -> Iterator[Metric]:
        vitals, now = self._vitals, self._vitals.clock()
        yield _level("partitions", "Partitions owned.", len(vitals.holdings))
        yield _level("queue_batches", "Batches handed to the model and not yet published.", vitals.queued_batches)
        yield _level("queue_windows", "Windows handed to the model and not yet published.", vitals.queued_windows)
        yield _level("paused", "1 while partitions are paused.", vitals.paused)
        yield _level("waiting_for_store", "1 while reading waits for the store.", vitals.waiting_for_store)
        yield _level("store_reachable", "1 when the store answered last time.", bool(vitals.store_reachable))
        yield _level("models_loaded", "1 when every model is loaded and checked.", vitals.models_loaded)
        yield _level("stuck_seconds", "Time with lag and without progress.", vitals.stuck_for_s)
        yield _age("poll", "Time since the last poll came back.", vitals.last_poll, now)
        yield _age("progress", "Time since records last got on.", vitals.last_progress, now)
        yield _age("beat", "Time since the event loop last turned.", vitals.last_beat, now)
        peak = vitals.loop_delay_peak.value(now)
        yield _level("loop_delay_peak_seconds", "Longest delay of the 50 ms ticker, last one to two minutes.", peak)

    def _durations_and_sizes(self) -> Iterator[Metric]:
        vitals = self._vitals
        stages = HistogramMetricFamily("anchormoe_stage_seconds", "Time per batch and stage.", labels=["stage"])
        for stage, seconds in vitals.stages.items():
            stages.add_metric([stage], _buckets(seconds), seconds.total)
        yield stages
        yield _histogram("batch_records", "Records per batch.", vitals.batch_records)
        yield _histogram("batch_windows", "Due windows per batch.", vitals.batch_windows)
        yield _histogram("loop_delay_seconds", "Delay of the 50 ms ticker on the event loop.", vitals.loop_delay)


def registry_of(tally: Counters, vitals: RuntimeStatus, wall_s: Callable[[], float] = time.time) -> CollectorRegistry:
    """The agent's own registry: nothing that a library registers globally gets in."""
    registry = CollectorRegistry()
    registry.register(AgentCollector(tally, vitals, wall_s))
    ProcessCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry) -> bytes:
    return generate_latest(registry)


def _count(name: str, meaning: str, value: int) -> Metric:
    return CounterMetricFamily(f"anchormoe_{name}", meaning, value=value)


def _counts(name: str, meaning: str, label: str, values: dict[str, int]) -> Metric:
    family = CounterMetricFamily(f"anchormoe_{name}", meaning, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


def _level(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"anchormoe_{name}", meaning, value=value)


def _age(name: str, meaning: str, at: float | None, now: float) -> Metric:
    family = GaugeMetricFamily(f"anchormoe_{name}_age_seconds", meaning)
    if at is not None:
        family.add_metric([], now - at)
    return family


def _per_partition(name: str, meaning: str, values: dict[Partition, int] | dict[Partition, float]) -> Metric:
    family = GaugeMetricFamily(f"anchormoe_{name}", meaning, labels=_PARTITION)
    for at, value in sorted(values.items()):
        family.add_metric([at.topic, str(at.number)], value)
    return family


def _histogram(name: str, meaning: str, values: Histogram) -> Metric:
    return HistogramMetricFamily(f"anchormoe_{name}", meaning, buckets=_buckets(values), sum_value=values.total)


def _buckets(values: Histogram) -> list[tuple[str, float]]:
    """Prometheus wants cumulative counts."""
    buckets, sofar = [], 0
    for bound, count in zip((*values.bounds, float("inf")), values.counts, strict=True):
        sofar += count
        buckets.append(("+Inf" if bound == float("inf") else str(bound), float(sofar)))
    return buckets
