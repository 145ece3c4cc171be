"""The simulated plant as a source: in real time, faster, or as fast as possible."""

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
from connectors.timestamps import NS_PER_S

_NO_END = 1 << 62
"""Records are made as they are read: no offset is beyond the end."""


class SimulatorSource(LogSource):
    """Asset k is in partition k modulo `partitions`.

    `start_ns` is the time of sample 0; None is the current second at the start. `speed` 1 is real time, None as fast as
    possible. `samples` is the number per asset; None is endless.
    """

    def __init__(
        self,
        assets: Sequence[SimulatedAsset],
        *,
        corruption: CorruptionSettings | None = None,
        partitions: int = 1,
        topic: str = "simulated",
        start_ns: int | None = None,
        speed: float | None = 1.0,
        samples: int | None = None,
        offsets: OffsetStore | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        split = {Partition(topic, number): tuple(assets[number::partitions]) for number in range(partitions)}
        by_partition = {partition: some for partition, some in split.items() if some}
        pace = _Pace(start_ns, speed, clock)
        self._plant = _PlantLog(by_partition, corruption or CorruptionSettings(), pace, samples)
        super().__init__(self._plant, offsets or MemoryOffsetStore(), bounded=samples is not None)

    @property
    def start_ns(self) -> int:
        """The time of sample 0; known after the start."""
        return self._plant.pace.start_ns

    async def start(self, assignment: Assignment) -> None:
        self._plant.open()
        await super().start(assignment)


class _Pace:
    """Plant time as a function of the clock; both are equal at the start."""

    def __init__(self, start_ns: int | None, speed: float | None, clock: Callable[[], int]) -> None:
        self._start_ns = start_ns
        self.speed = speed
        self._clock = clock

    @property
    def start_ns(self) -> int:
        if self._start_ns is None:
            self._start_ns = self._clock() // NS_PER_S * NS_PER_S
        return self._start_ns

    def now_ns(self) -> int | None:
        if self.speed is None:
            return None
        return self.start_ns + int((self._clock() - self.start_ns) * self.speed)


class _PlantLog:
    """The logs of all partitions under one clock."""

    def __init__(
        self,
        assets: dict[Partition, tuple[SimulatedAsset, ...]],
        corruption: CorruptionSettings,
        pace: _Pace,
        samples: int | None,
    ) -> None:
        self.pace = pace
        self._assets = assets
        self._corruption = corruption
        self._samples = samples
        self._logs: dict[Partition, PartitionLog] = {}

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(self._assets)

    def open(self) -> None:
        for partition, assets in self._assets.items():
            log = PartitionLog(assets, self._corruption, start_ns=self.pace.start_ns, samples=self._samples)
            self._logs[partition] = log

    def first_offset(self, partition: Partition) -> int:
        return 0

    def end_offset(self, partition: Partition) -> int:
        return _NO_END

    def read(self, partition: Partition, offset: int, max_records: int) -> tuple[Sequence[Record], int]:
        log, now_ns = self._logs[partition], self.pace.now_ns()
        records, position = log.read(offset, max_records, now_ns)
        while not records and position != offset:  # a block without records
            offset = position
            records, position = log.read(offset, max_records, now_ns)
        return records, position

    def lag(self, partition: Partition, offset: int) -> int:
        """An endless plant without a pace has no lag: it makes records as they are asked for."""
        now_ns = self.pace.now_ns()
        if now_ns is None:
            now_ns = (1 << 62) if self._samples is not None else self.pace.start_ns - 1
        return self._logs[partition].lag(offset, now_ns)

    def at_end(self, partition: Partition, offset: int) -> bool:
        return self._logs[partition].at_end(offset)

    def next_record_in_s(self) -> float:
        if self.pace.speed is None:
            return math.inf
        fastest = min(asset.kind.period_ns for assets in self._assets.values() for asset in assets)
        return fastest / NS_PER_S / self.pace.speed

    def watch(self, appended: asyncio.Event) -> None:
        """Records appear as time passes, see `next_record_in_s`."""

    def unwatch(self, appended: asyncio.Event) -> None:
        """See `watch`."""
