"""Prometheus collector over counters, progress and status: read when scraped, base units, no label per asset."""

import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from typing import get_args

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
from agent.events.fault import Stage as FaultStage
from agent.health.counters import Counters
from agent.health.progress import Progress
from agent.health.status import Histogram, RuntimeStatus
from connectors.records import Partition
from connectors.timestamps import NS_PER_S

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PARTITION = ("topic", "partition")
_MODEL = ("group", "name", "version", "digest")
_DIGEST_DIGITS = 12
_RELOADS = ("loaded", "refused", "malformed")
_FAULT_STAGES: tuple[str, ...] = get_args(FaultStage)
_VERSION = version("anchormoe-agent")  # once: each look-up reads the package's metadata from disk


class AgentCollector(Collector):
    """Costs nothing between two scrapes. `wall_s` is the wall clock in epoch seconds."""

    def __init__(
        self, counters: Counters, progress: Progress, status: RuntimeStatus, wall_s: Callable[[], float] = time.time
    ) -> None:
        self._counters, self._progress, self._status, self._wall_s = counters, progress, status, wall_s

    def collect(self) -> Iterable[Metric]:
        yield InfoMetricFamily("anchormoe_build", "The running version.", {"version": _VERSION})
        yield from self._fleet()
        yield from self._work_done()
        yield from self._trouble()
        yield from self._partitions()
        yield from self._condition()
        yield from self._durations_and_sizes()

    def _fleet(self) -> Iterator[Metric]:
        status = self._status
        assets = GaugeMetricFamily("anchormoe_assets", "Assets by their last state.", labels=["group", "state"])
        for (group, state), count in sorted(status.assets().items()):
            assets.add_metric([group, state], count)
        yield assets
        models = GaugeMetricFamily("anchormoe_model_info", "The model that judges a group's windows.", labels=_MODEL)
        for group, model in sorted(status.models().items()):
            models.add_metric([group, model.name, model.version, model.digest[:_DIGEST_DIGITS]], 1)
        yield models
        judged = CounterMetricFamily("anchormoe_windows_judged", "Windows by outcome.", labels=["group", "outcome"])
        for (group, outcome), count in sorted(self._counters.judged.items()):
            judged.add_metric([group, outcome], count)
        yield judged

    def _work_done(self) -> Iterator[Metric]:
        counters, status = self._counters, self._status
        yield _count("records", "Records read.", counters.records)
        yield _count("windows", "Windows that became due.", counters.windows)
        yield _counts("events", "Events published.", "type", counters.events)
        meaning = "Sensors that became unhealthy, by what was found in their values."
        yield _counts("sensor_faults", meaning, "finding", counters.sensor_faults)
        yield _count("checkpoints", "Checkpoints stored and committed.", counters.checkpoints)
        yield _count("checkpoint_bytes", "Bytes of windows and headers sent to the store.", status.checkpoint_bytes)
        yield _count("expired_assets", "Assets forgotten because they sent nothing for long.", counters.expired_assets)
        yield _counts(
            "model_reloads", "Activated bundles, by outcome of loading.", "outcome", status.model_reloads, _RELOADS
        )

    def _trouble(self) -> Iterator[Metric]:
        counters, status = self._counters, self._status
        yield _counts("dead_letters", "Records that could not be used.", "reason", counters.dead_letters)
        meaning = "Exceptions inside the agent, by the stage where they were raised; each is a fault to report."
        yield _counts("internal_errors", meaning, "stage", counters.internal_errors, _FAULT_STAGES)
        meaning = "Skipped because the settings say so: records of unknown assets, unknown channels in records."
        yield _counts("ignored", meaning, "reason", counters.ignored)
        meaning = "Places where a sender's own sequence numbers say that messages are missing (Sparkplug)."
        yield _count("sequence_gaps", meaning, counters.sequence_gaps)
        yield _count("late_records", "Records that arrived after their window was due.", counters.dead_letters[LATE])
        meaning = (
            "Messages larger than Kafka takes, published without a part: dead letters as pointers, events shortened."
        )
        yield _counts("oversized_messages", meaning, "stream", counters.oversized)
        yield _count("lost_records", "Offsets that were deleted before they were read.", counters.lost_records)
        yield _counts("replaced_logs", "Logs that were made anew or cut.", "reason", counters.replaced_logs)
        yield _count("moved_commits", "Committed offsets that somebody else has set.", counters.moved_commits)
        meaning = "Records that were fetched again although the windows have them."
        yield _count("refetched_records", meaning, counters.refetched_records)
        yield _count("rejected_claims", "Calls that the store rejected: another owner.", status.rejected_claims)
        yield _count("source_restarts", "Restarts of the source by the watchdog.", status.source_restarts)

    def _partitions(self) -> Iterator[Metric]:
        owned, now_ns = self._status.partitions, self._wall_s() * NS_PER_S
        position = {at: status.position for at, status in owned.items() if status.position is not None}
        behind_s = {
            at: (now_ns - status.newest_ns) / NS_PER_S for at, status in owned.items() if status.newest_ns is not None
        }
        yield _per_partition("lag_records", "Records still to be read.", self._progress.lag or {})
        yield _gauge("lag_known", "0 while nobody can say how far behind: then lag has no series.", self._lag_known())
        yield _per_partition("position", "Next offset to read.", position)
        yield _per_partition("owner_epoch", "Epoch of the claim.", {at: status.epoch for at, status in owned.items()})
        yield _per_partition("watermark_delay_seconds", "Newest event time behind the wall clock.", behind_s)

    def _lag_known(self) -> bool:
        return self._progress.lag is not None

    def _condition(self) -> Iterator[Metric]:
        progress, status = self._progress, self._status
        yield _gauge("partitions", "Partitions owned.", len(status.partitions))
        yield _gauge("queue_batches", "Batches with the model and not yet published.", progress.queued_batches)
        yield _gauge("queue_windows", "Windows with the model and not yet published.", progress.queued_windows)
        yield _gauge("paused", "1 while partitions are paused.", status.paused)
        yield _gauge("waiting_for_store", "1 while reading waits for the store.", progress.waiting_for_store)
        yield _gauge("store_reachable", "1 when the last call of the store was answered.", bool(status.store_reachable))
        yield _gauge("models_loaded", "1 when every model is loaded and checked.", status.models_loaded)
        yield _gauge("stuck_seconds", "Time with work to do and without progress.", progress.stuck_for_s)
        now_s = progress.clock()
        yield _age("poll", "Time since the last poll returned.", progress.last_poll_s, now_s)
        yield _age("progress", "Time since work last advanced.", progress.last_progress_s, now_s)
        yield _age("commit", "Time since an offset was last committed.", status.last_commit_s, status.clock())
        yield _age("loop_tick", "Time since the event loop last ran its ticker.", status.last_tick_s, status.clock())
        most = status.record_windows_max.value(status.clock())
        yield _gauge("record_windows_max", "Most windows that one record made due, last one to two minutes.", most)
        longest = status.loop_delay_max.value(status.clock())
        yield _gauge("loop_delay_max_seconds", "Longest delay of the 50 ms ticker, last one to two minutes.", longest)

    def _durations_and_sizes(self) -> Iterator[Metric]:
        status = self._status
        stages = HistogramMetricFamily("anchormoe_stage_seconds", "Time per batch and stage.", labels=["stage"])
        for stage, seconds in status.stages.items():
            stages.add_metric([stage], _buckets(seconds), seconds.total)
        yield stages
        yield _histogram("batch_records", "Records per batch.", status.batch_records)
        yield _histogram("batch_windows", "Due windows per batch.", status.batch_windows)
        meaning = "From a window's end to the publication of its state."
        yield _histogram("event_delay_seconds", meaning, status.event_delay)
        yield _histogram("loop_delay_seconds", "Delay of the 50 ms ticker on the event loop.", status.loop_delay)


def make_registry(
    counters: Counters, progress: Progress, status: RuntimeStatus, wall_s: Callable[[], float] = time.time
) -> CollectorRegistry:
    """A registry of its own: nothing that a library registers globally gets in."""
    registry = CollectorRegistry()
    registry.register(AgentCollector(counters, progress, status, wall_s))
    ProcessCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry) -> bytes:
    return generate_latest(registry)


def _count(name: str, meaning: str, value: int) -> Metric:
    return CounterMetricFamily(f"anchormoe_{name}", meaning, value=value)


def _counts(name: str, meaning: str, label: str, values: dict[str, int], known: Iterable[str] = ()) -> Metric:
    """`known` are told from the start: `increase` does not see the first of a series that begins with it."""
    family = CounterMetricFamily(f"anchormoe_{name}", meaning, labels=[label])
    for key, value in sorted({**dict.fromkeys(known, 0), **values}.items()):
        family.add_metric([key], value)
    return family


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"anchormoe_{name}", meaning, value=value)


def _age(name: str, meaning: str, at_s: float | None, now_s: float) -> Metric:
    family = GaugeMetricFamily(f"anchormoe_{name}_age_seconds", meaning)
    if at_s is not None:
        family.add_metric([], now_s - at_s)
    return family


def _per_partition(name: str, meaning: str, values: dict[Partition, int] | dict[Partition, float]) -> Metric:
    family = GaugeMetricFamily(f"anchormoe_{name}", meaning, labels=_PARTITION)
    for at, value in sorted(values.items()):
        family.add_metric([at.topic, str(at.number)], value)
    return family


def _histogram(name: str, meaning: str, values: Histogram) -> Metric:
    return HistogramMetricFamily(f"anchormoe_{name}", meaning, buckets=_buckets(values), sum_value=values.total)


def _buckets(values: Histogram) -> list[tuple[str, float]]:
    """Prometheus expects cumulative counts."""
    buckets, total = [], 0
    for bound, count in zip((*values.bounds, float("inf")), values.counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound == float("inf") else str(bound), float(total)))
    return buckets
