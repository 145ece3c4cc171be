"""The simulated plant as a source, at the pace of the clock, faster, or as fast as it can."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence

from connectors.base import Assignment
from connectors.log_source import LogSource
from connectors.offsets import MemoryOffsetStore, OffsetStore
from connectors.records import Partition, Record
from connectors.simulator.corruption import CorruptionSettings
from connectors.simulator.log import PartitionLog
from connectors.simulator.plants import SimulatedAsset

_NS_PER_S = 1_000_000_000


class SimulatorSource(LogSource):
    """Asset k is in partition k modulo `partitions`.

    `start_ns` is the time of sample 0; None means the second in which the source starts. `speed` 1 is real time, None
    is without pace. `samples` per asset bound the log; None is endless.
    """

    def __init__(
        self,
        assets: Sequence[SimulatedAsset],
        *,
        dirt: CorruptionSettings | None = None,
        partitions: int = 1,
        topic: str = "simulated",
        start_ns: int | None = None,
        speed: float | None = 1.0,
        samples: int | None = None,
        commits: OffsetStore | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        shares = {Partition(topic, number): tuple(assets[number::partitions]) for number in range(partitions)}
        shares = {partition: share for partition, share in shares.items() if share}
        self._plant = _PlantLog(shares, dirt or CorruptionSettings(), _Pace(start_ns, speed, clock), samples)
        super().__init__(self._plant, commits or MemoryOffsetStore(), bounded=samples is not None)

    @property
    def start_ns(self) -> int:
        """The time of sample 0; known after the start."""
        return self._plant.pace.start_ns

    async def start(self, assignment: Assignment) -> None:
        self._plant.open()
        await super().start(assignment)


class _Pace:
    """Plant time against the clock's time; both are the same at the start."""

    def __init__(self, start_ns: int | None, speed: float | None, clock: Callable[[], int]) -> None:
        self._start_ns = start_ns
        self.speed = speed
        self._clock = clock

    @property
    def start_ns(self) -> int:
        if self._start_ns is None:
            self._start_ns = self._clock() // _NS_PER_S * _NS_PER_S
        return self._start_ns

    def now_ns(self) -> int | None:
        if self.speed is None:
            return None
        return self.start_ns + int((self._clock() - self.start_ns) * self.speed)


class _PlantLog:
    """The partitions' logs under one clock."""

    def __init__(
        self,
        shares: dict[Partition, tuple[SimulatedAsset, ...]],
        dirt: CorruptionSettings,
        pace: _Pace,
        samples: int | None,
    ) -> None:
        self.pace = pace
        self._shares = shares
        self._dirt = dirt
        self._samples = samples
        self._logs: dict[Partition, PartitionLog] = {}

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(self._shares)

    def open(self) -> None:
        for partition, assets in self._shares.items():
            log = PartitionLog(assets, self._dirt, start_ns=self.pace.start_ns, samples=self._samples)
            self._logs[partition] = log

    def first(self, partition: Partition) -> int:
        return 0

    def read(self, partition: Partition, offset: int, max_records: int) -> tuple[Sequence[Record], int]:
        log, now_ns = self._logs[partition], self.pace.now_ns()
        records, position = log.read(offset, max_records, now_ns)
        while not records and position != offset:  # a block ended without giving any
            offset = position
            records, position = log.read(offset, max_records, now_ns)
        return records, position

    def behind(self, partition: Partition, offset: int) -> int:
        """An unpaced endless plant is always up to date: it makes what is asked for."""
        now_ns = self.pace.now_ns()
        if now_ns is None:
            now_ns = (1 << 62) if self._samples is not None else self.pace.start_ns - 1
        return self._logs[partition].behind(offset, now_ns)

    def ended(self, partition: Partition, offset: int) -> bool:
        return self._logs[partition].ended(offset)

    def due_in_s(self) -> float:
        if self.pace.speed is None:
            return math.inf
        fastest = min(asset.kind.period_ns for assets in self._shares.values() for asset in assets)
        return fastest / _NS_PER_S / self.pace.speed

    def watch(self, news: asyncio.Event) -> None:
        """The clock is what brings news."""

    def unwatch(self, news: asyncio.Event) -> None:
        """The clock is what brings news."""
