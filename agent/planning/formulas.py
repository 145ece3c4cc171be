"""From a load and what records, windows and events cost to replicas, partitions, memory and time after an outage. Pure.

Every input that is not the user's own is a `Figure`, which says where it comes from.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

from agent.errors import SettingsError

Origin = Literal["measured here", "measured there", "assumed"]
Allocator = Literal["jemalloc", "libc"]

UTILISATION = 0.6
"""Of a replica at the peak; the rest is for garbage collection, rebalances and a neighbour that failed."""
PARTITIONS = (6, 12, 24, 48, 60, 120, 240, 360, 480, 720, 960, 1200)
REDIS_RESIDENT = 1.06
REDIS_REWRITE = 2.0
"""While the append-only file is rewritten, every page may exist twice."""
DISK_FULL_AT = 0.7
_CONFIDENCE = 0.95
_MOST_REPLICAS = 50_000
"""Twice as many partitions, with their copies and the other topics, are about what a cluster of Kafka carries."""
_SPARE = 1


@dataclass(frozen=True, slots=True)
class Figure:
    value: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class Costs:
    """What one of each costs in processor seconds and bytes.

    `window_bytes`: of a window from when it is due to its publication, with its evidence. `header_bytes`: of the stored
    header, per asset.
    """

    record_s: Figure
    window_s: Figure
    event_s: Figure
    events_per_window: Figure
    record_bytes: Figure
    event_bytes: Figure
    asset_bytes: Figure
    window_bytes: Figure
    header_bytes: Figure


@dataclass(frozen=True, slots=True)
class Load:
    """Of one group. `records_per_sample` is 1 for wide records, the channels for narrow, 1/samples for chunks."""

    assets: int
    rate_hz: float
    channels: int
    length: int
    hop: int
    lateness: int
    costs: Costs
    records_per_sample: float = 1.0
    memory_hops: int = 32
    key_bytes: int = 64

    @property
    def records_per_s(self) -> float:
        return self.assets * self.rate_hz * self.records_per_sample

    @property
    def windows_per_s(self) -> float:
        return self.assets * self.rate_hz / self.hop

    @property
    def events_per_s(self) -> float:
        return self.windows_per_s * self.costs.events_per_window.value

    @property
    def cores(self) -> float:
        costs = self.costs
        records, windows = self.records_per_s * costs.record_s.value, self.windows_per_s * costs.window_s.value
        return records + windows + self.events_per_s * costs.event_s.value

    @property
    def rebuild_s(self) -> float:
        """How far back a lost store reads the log."""
        return (self.length + self.memory_hops * self.hop + self.lateness) / self.rate_hz

    def redis_bytes(self, allocator: Allocator) -> float:
        """The largest of these is the ring; a quarter more where the allocator has no fitting size."""
        ring = ring_slots(self.length, self.hop, self.lateness) * self.channels * 4
        return self.assets * (redis_entry_bytes(ring, self.key_bytes, allocator) + self.costs.header_bytes.value)


@dataclass(frozen=True, slots=True)
class Terms:
    """What the user asks for. `peak` and `growth` are factors; without an outage nothing must be caught up with.

    `assets_in` says how many assets the fullest of some partitions has, where the real ids are known.
    """

    peak: float = 1.5
    growth: float = 1.5
    outage_s: float | None = None
    catch_up_s: float = 1800.0
    checkpoint_s: float = 5.0
    replication: int = 3
    cores_per_replica: float = 1.0
    allocator: Allocator = "jemalloc"
    base_bytes: Figure = Figure(1.02e9, "assumed")
    queue_windows: int = 1024
    in_flight: int = 2
    batch_records: int = 5000
    assets_in: Callable[[int], int] | None = None

    def fullest(self, assets: int, parts: int) -> float:
        """By how much the fullest of some partitions exceeds the mean: by their ids, else for a hash."""
        return fullest(assets, parts) if self.assets_in is None else self.assets_in(parts) * parts / assets


@dataclass(frozen=True, slots=True)
class Capacity:
    """What to order. `catch_up_s` is None where no outage was given, infinite where it would never end."""

    records_per_s: float
    windows_per_s: float
    events_per_s: float
    cores: float
    replicas: int
    partitions: int
    fullest_partition: float
    fullest_replica: float
    utilisation: float
    catch_up_s: float | None
    retention_s: float
    redis_bytes: float
    redis_maxmemory: int
    agent_bytes: float
    kafka_bytes: float
    in_bytes_per_s: float
    out_bytes_per_s: float
    lag_threshold: int
    records_per_replica: float


def fullest(assets: int, parts: int, confidence: float = _CONFIDENCE) -> float:
    """By how much the fullest of some parts exceeds the mean, where a hash spreads the assets.

    The largest of as many nearly normal counts; below ten assets per part it is too small, and the hash itself tells.
    """
    if parts <= 1:
        return 1.0
    z = NormalDist().inv_cdf(confidence ** (1 / parts))
    return 1 + z * math.sqrt((parts - 1) / assets)


def ring_slots(length: int, hop: int, lateness: int) -> int:
    """As `agent.windows.ring_buffers` lays them out."""
    return length + hop + lateness + max(hop, length // 2)


def redis_entry_bytes(ring_bytes: int, key_bytes: int, allocator: Allocator) -> int:
    """A key with its value and its expiry: an entry in each of two tables, the value's object, two buckets.

    The key's text has 4 bytes beside it, the value's 6.
    """
    size_of = ALLOCATORS[allocator]
    return 2 * size_of(24) + size_of(16) + 2 * 8 + size_of(key_bytes + 4) + size_of(ring_bytes + 6)


def jemalloc_bytes(size: int) -> int:
    """What an allocation takes: steps of 16 up to 128, then four sizes per doubling."""
    if size <= 128:
        return max(-(-size // 16), 1) * 16
    step = 1 << ((size - 1).bit_length() - 3)
    return -(-size // step) * step


def libc_bytes(size: int) -> int:
    """What glibc's malloc gives, as Redis counts it: steps of 16, 8 of them its own."""
    return max(-(-(size + 8) // 16) * 16 - 8, 24)


ALLOCATORS: dict[Allocator, Callable[[int], int]] = {"jemalloc": jemalloc_bytes, "libc": libc_bytes}


def partitions_for(replicas: int) -> int:
    """The smallest usual number with two per replica, so that one more replica has something to take."""
    for number in PARTITIONS:
        if number >= 2 * replicas:
            return number
    return math.ceil(2 * replicas / PARTITIONS[-1]) * PARTITIONS[-1]


def replicas_for(loads: Sequence[Load], terms: Terms) -> int:
    """At the peak, for the fullest replica, and fast enough after an outage; one more, since one may be away."""
    cores, assets = sum(load.cores for load in loads), sum(load.assets for load in loads)
    by_outage = 0.0
    if terms.outage_s is not None:
        by_outage = cores * (terms.outage_s + terms.catch_up_s) / terms.catch_up_s
    needed = max(terms.peak * cores / UTILISATION, by_outage) / terms.cores_per_replica
    replicas = max(math.ceil(needed), 1)
    # The more replicas, the more the fullest exceeds the mean: each step goes no further than what is needed at least.
    while replicas <= _MOST_REPLICAS and replicas < (least := math.ceil(needed * fullest(assets, replicas))):
        replicas = least
    return replicas + _SPARE


def catch_up_s(cores: float, terms: Terms, replicas: int) -> float:
    """A backlog of R·T is drained in T·ρ/(1 − ρ), where ρ is the share of the capacity that the load needs."""
    share = cores / (replicas * terms.cores_per_replica)
    return math.inf if share >= 1 else (terms.outage_s or 0.0) * share / (1 - share)


def plan(loads: Sequence[Load], terms: Terms, *, replicas: int | None = None) -> Capacity:
    """`replicas` fixes them instead; the partitions are those for the load after its growth.

    Raises SettingsError for a load that no cluster of Kafka carries.
    """
    grown = [replace(load, assets=math.ceil(load.assets * terms.growth)) for load in loads]
    most = replicas_for(grown, terms)
    if most > _MOST_REPLICAS:
        raise SettingsError(f"after its growth the load needs {most:,} agents, and no cluster of Kafka carries so many")
    partitions = partitions_for(most)
    if replicas is None:
        needed = replicas_for(loads, terms)
        replicas = next(number for number in range(needed, partitions + 1) if partitions % number == 0)
    else:
        partitions = max(partitions, partitions_for(replicas))
    assets, cores = sum(load.assets for load in loads), sum(load.cores for load in loads)
    records = sum(load.records_per_s for load in loads)
    redis = sum(load.redis_bytes(terms.allocator) for load in loads)
    retention_s = (terms.outage_s or 0.0) + terms.catch_up_s + max(load.rebuild_s for load in loads)
    in_bytes = sum(load.records_per_s * load.costs.record_bytes.value for load in loads)
    out_bytes = sum(load.events_per_s * load.costs.event_bytes.value for load in loads)
    fullest_replica = fullest(assets, replicas)
    return Capacity(
        records_per_s=records,
        windows_per_s=sum(load.windows_per_s for load in loads),
        events_per_s=sum(load.events_per_s for load in loads),
        cores=cores,
        replicas=replicas,
        partitions=partitions,
        fullest_partition=terms.fullest(assets, partitions),
        fullest_replica=fullest_replica,
        utilisation=cores / (replicas * terms.cores_per_replica),
        catch_up_s=None if terms.outage_s is None else catch_up_s(cores, terms, replicas),
        retention_s=retention_s,
        redis_bytes=redis,
        redis_maxmemory=_up_to_power_of_two(redis * REDIS_RESIDENT * REDIS_REWRITE, least=64 << 20),
        agent_bytes=agent_bytes(loads, terms, share=fullest_replica / replicas),
        kafka_bytes=(in_bytes + out_bytes) * retention_s * terms.replication / DISK_FULL_AT,
        in_bytes_per_s=in_bytes,
        out_bytes_per_s=out_bytes,
        lag_threshold=math.ceil(2 * records / replicas * terms.checkpoint_s),
        records_per_replica=UTILISATION * terms.cores_per_replica * records / cores,
    )


def agent_bytes(loads: Sequence[Load], terms: Terms, *, share: float = 1.0) -> float:
    """Resident memory of an agent with this share of the assets, when all of them have a window due."""
    held = sum(share * load.assets * load.costs.asset_bytes.value for load in loads)
    return terms.base_bytes.value + held + sum(_queue_bytes(load, terms, share) for load in loads)


def _queue_bytes(load: Load, terms: Terms, share: float) -> float:
    return load.costs.window_bytes.value * windows_at_once(share * load.assets, load.hop, terms)


def windows_at_once(assets: float, hop: int, terms: Terms) -> float:
    """How many may be between due and published: one of every asset, or all of a batch, in each batch in flight."""
    return min(terms.in_flight * max(assets, terms.batch_records / hop), terms.queue_windows)


def most_assets(loads: Sequence[Load], terms: Terms, replicas: int) -> int:
    """How many assets some replicas carry in the same proportions, by the same rules; 0 where not even one of each."""
    total = sum(load.assets for load in loads)

    def carried(assets: int) -> bool:
        scaled = [replace(load, assets=max(math.ceil(load.assets * assets / total), 1)) for load in loads]
        return replicas_for(scaled, terms) <= replicas

    if not carried(1):
        return 0
    low, high = 1, 2
    while carried(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if carried(middle) else (low, middle)
    return low


def _up_to_power_of_two(size: float, *, least: int) -> int:
    while least < size:
        least *= 2
    return least
