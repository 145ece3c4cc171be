"""The planner's answer: in words, as JSON, and as values for the Helm chart. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from agent.planning.formulas import UTILISATION, Capacity, Costs, Figure, Load, Terms, fullest
from agent.settings.plant import Plant
from agent.settings.resolve import ResolvedGroup

_MIB = 1 << 20
_MEMORY_MARGIN = 1.25
"""Between what an agent needs and the limit at which it is killed."""
_COSTS = {
    "record_s": ("a record", "s"),
    "window_s": ("a window", "s"),
    "event_s": ("an event", "s"),
    "events_per_window": ("events per window", ""),
    "record_bytes": ("a record", "B"),
    "event_bytes": ("an event", "B"),
    "asset_bytes": ("an asset's windows in memory", "B"),
    "window_bytes": ("a window until it is published", "B"),
    "header_bytes": ("an asset's share of the stored header", "B"),
}


def in_words(capacity: Capacity, loads: Mapping[str, Load], terms: Terms, warnings: Sequence[str]) -> Iterator[str]:
    yield "To order"
    yield from _rows(_order(capacity, terms))
    yield ""
    yield "Load"
    yield from _rows(_load(capacity))
    for name, load in loads.items():
        yield ""
        yield f"Costs of group {name}: {load.assets:,} assets at {load.rate_hz:g} samples/s"
        yield from _rows(_costs(load.costs))
    yield ""
    base = terms.base_bytes
    yield from _rows([("an agent without assets", size_text(base.value), base.origin)])
    if warnings:
        yield ""
        yield from (f"warning: {warning}" for warning in warnings)


def _order(capacity: Capacity, terms: Terms) -> Iterator[tuple[str, str, str]]:
    spare = f"{capacity.utilisation:.0%} of their processors without the peak; one of them may be away"
    yield "agents", f"{capacity.replicas}", f"{terms.cores_per_replica:g} core each; {spare}"
    whole = capacity.partitions // capacity.replicas
    each = f"{whole} per agent" if capacity.partitions % capacity.replicas == 0 else "not a whole number per agent"
    yield (
        "partitions",
        f"{capacity.partitions}",
        f"{each}; the fullest has {capacity.fullest_partition:.2f} × the mean ({_hash(terms)}); more would "
        "scale further and balance worse",
    )
    yield (
        "memory of an agent",
        size_text(capacity.agent_bytes),
        "the fullest one, when all of its assets have a window due at once",
    )
    yield "Redis", size_text(capacity.redis_bytes), f"used_memory with {terms.allocator}"
    yield (
        "Redis maxmemory",
        size_text(capacity.redis_maxmemory),
        "noeviction; fragments, and twice while the append-only file is rewritten",
    )
    yield "retention of the input", duration_text(capacity.retention_s), "outage, catching up, rebuilding windows"
    yield (
        "Kafka's disks",
        size_text(capacity.kafka_bytes),
        f"input and events over the retention, {terms.replication} copies, 70 % full",
    )
    if capacity.catch_up_s is not None:
        asked = f"asked for: {duration_text(terms.catch_up_s)} after {duration_text(terms.outage_s or 0)}"
        yield "caught up after", duration_text(capacity.catch_up_s), asked
    yield "KEDA, records/s per agent", f"{capacity.records_per_replica:,.0f}", f"at {UTILISATION:.0%} of its processor"
    yield "KEDA, lag", f"{capacity.lag_threshold:,}", "never below what two checkpoints leave uncommitted"


def _hash(terms: Terms) -> str:
    return "95 % of hashes" if terms.assets_in is None else "by the murmur2 of these ids"


def _load(capacity: Capacity) -> Iterator[tuple[str, str, str]]:
    yield "records", f"{capacity.records_per_s:,.0f}/s", f"{size_text(capacity.in_bytes_per_s)}/s"
    yield "windows", f"{capacity.windows_per_s:,.1f}/s", ""
    yield "events", f"{capacity.events_per_s:,.2f}/s", f"{size_text(capacity.out_bytes_per_s)}/s"
    yield "processors", f"{capacity.cores:.2f}", "at 100 %, before the peak"


def _costs(costs: Costs) -> Iterator[tuple[str, str, str]]:
    for name, (words, unit) in _COSTS.items():
        figure: Figure = getattr(costs, name)
        text = {"s": f"{figure.value * 1e6:,.1f} µs", "B": size_text(figure.value), "": f"{figure.value:.4g}"}[unit]
        yield words, text, figure.origin


def _rows(rows: "Iterator[tuple[str, str, str]] | Sequence[tuple[str, str, str]]") -> Iterator[str]:
    for words, value, remark in rows:
        yield f"  {words:<38} {value:>12}  {remark}".rstrip()


def as_document(capacity: Capacity, loads: Mapping[str, Load], terms: Terms, warnings: Sequence[str]) -> dict[str, Any]:
    """Infinity becomes null: JSON has none."""
    order = {name: _finite(value) for name, value in asdict(capacity).items()}
    groups = {
        name: {
            "assets": load.assets,
            "rate_hz": load.rate_hz,
            "records_per_s": load.records_per_s,
            "costs": {field.name: asdict(getattr(load.costs, field.name)) for field in fields(load.costs)},
        }
        for name, load in loads.items()
    }
    return {"plan": order, "groups": groups, "base_bytes": asdict(terms.base_bytes), "warnings": list(warnings)}


def as_values(capacity: Capacity, terms: Terms, topics: Sequence[str], *, windows_bytes: int) -> dict[str, Any]:
    """For `helm install --values`. The topics are only created where `topics.enabled` is set too.

    `windows_bytes` is the plant's limits.memory. An agent may come to hold so much when it takes over from others, and
    must not be killed for it; the chart refuses less.
    """
    memory = math.ceil(capacity.agent_bytes / _MIB)
    most = math.ceil((capacity.agent_bytes + windows_bytes) / _MIB)
    retention_ms = math.ceil(capacity.retention_s / 3600) * 3_600_000
    return {
        "agent": {
            "replicas": capacity.replicas,
            "resources": {
                "requests": {"cpu": f"{terms.cores_per_replica:g}", "memory": f"{memory}Mi"},
                "limits": {"memory": f"{max(math.ceil(memory * _MEMORY_MARGIN), most)}Mi"},
            },
        },
        "autoscaling": {
            "partitions": capacity.partitions,
            "minReplicas": max(math.ceil(capacity.replicas / 2), 1),
            "maxReplicas": capacity.partitions,
            "recordsPerSecondPerReplica": math.floor(capacity.records_per_replica),
            "catchUpSeconds": math.ceil(terms.catch_up_s),
        },
        "topics": {
            "create": [
                {
                    "name": topic,
                    "partitions": capacity.partitions,
                    "replication": terms.replication,
                    "config": {"retention.ms": str(retention_ms)},
                }
                for topic in topics
            ]
        },
    }


def warnings_of(
    capacity: Capacity, loads: Mapping[str, Load], groups: Sequence[ResolvedGroup], settings: Plant
) -> Iterator[str]:
    """Where the plant's own limits are below the plan, and what only somebody at the plant can know."""
    for group in groups:
        load = loads[group.name]
        if load.assets > group.max_assets:
            yield f"groups.{group.name}.max_assets is {group.max_assets:,}; {load.assets:,} assets are planned"
        hop_s, delay_s = group.hop_ns / 1e9, latency_s(load, settings)
        if hop_s < delay_s:
            yield f"group {group.name}: a window every {hop_s:g} s, but its event takes about {delay_s:.2g} s"
        load_hz = 1e9 / group.grid.period_ns
        if not math.isclose(load.rate_hz, load_hz, rel_tol=0.01):
            yield f"group {group.name}: {load.rate_hz:g} samples/s are planned, its period says {load_hz:g}"
    assets = sum(load.assets for load in loads.values())
    most = math.ceil(assets / capacity.partitions * capacity.fullest_partition)
    if most > settings.limits.assets_per_partition:
        limit = settings.limits.assets_per_partition
        yield f"limits.assets_per_partition is {limit:,}; the fullest partition would have {most:,}"
    share = fullest(assets, capacity.replicas) / capacity.replicas
    rings = share * sum(load.assets * load.costs.asset_bytes.value for load in loads.values())
    if rings > settings.limits.memory:
        yield f"limits.memory is {settings.limits.memory}; the windows of the fullest agent need {size_text(rings)}"
    if capacity.catch_up_s == math.inf:
        yield "the agents would never catch up: the load is more than they can do"


def latency_s(load: Load, settings: Plant) -> float:
    """From the record that makes a window due to its event: half the wait for a batch, the batch, two round trips."""
    batch_s = settings.inference.batch * (load.costs.window_s.value + load.costs.event_s.value)
    return settings.inference.max_wait.seconds / 2 + batch_s + 0.01


def size_text(size: float) -> str:
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} B"


def duration_text(seconds: float) -> str:
    if seconds == math.inf:
        return "never"
    for unit, factor in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
