"""The log of a simulated plant: any block of any partition can be written at any time, always the same. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from connectors.records import Record
from connectors.simulator.corruption import CorruptionSettings, corrupt
from connectors.simulator.plants import SimulatedAsset

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The records of a block in log order: when they arrive after the plant's start, whose they are, which sample."""

    arrival_ns: NDArray[np.int64]
    asset: NDArray[np.int64]
    row: NDArray[np.int64]
    malformed: NDArray[np.bool_]
    clock_jump: NDArray[np.bool_]

    def ordered(self) -> "Arrivals":
        order = np.lexsort((self.row, self.asset, self.arrival_ns))
        return Arrivals(*(getattr(self, name)[order] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class PlantBlock:
    """All that a partition holds of 25.6 s; `values` by asset and row, NaN (null on the wire) = not measured."""

    arrivals: Arrivals
    values: list[list[list[float]]]


class PartitionLog:
    """The records of some assets. An offset is block × capacity + place; the rest of the capacity stays a hole."""

    def __init__(
        self, assets: Sequence[SimulatedAsset], dirt: CorruptionSettings, *, start_ns: int, samples: int | None
    ) -> None:
        self.assets = tuple(assets)
        self._dirt = dirt
        self._start_ns = start_ns
        self._samples = samples
        nominal = sum(asset.kind.block_samples for asset in assets)
        self._capacity = nominal if dirt.duplicate == 0 else 2 * nominal
        self._block = lru_cache(maxsize=3)(self._write_block)

    def read(self, offset: int, max_records: int, now_ns: int | None) -> tuple[list[Record], int]:
        """What has arrived by `now_ns` (None = everything), no further than the end of a block."""
        number, place = divmod(max(offset, 0), self._capacity)
        if self._over(number):
            return [], offset
        block = self._block(number)
        there = self._arrived(block, now_ns)
        stop = min(place + max_records, there)
        records = [self._record(number, block, i) for i in range(place, stop)]
        done = max(place, stop) >= len(block.arrivals.row)
        return records, (number + 1) * self._capacity if done else number * self._capacity + max(place, stop)

    def ended(self, offset: int) -> bool:
        return self._over(max(offset, 0) // self._capacity)

    def behind(self, offset: int, now_ns: int) -> int:
        """Exact within the block; the blocks behind it count as if nothing were lost or doubled."""
        number, place = divmod(max(offset, 0), self._capacity)
        if self._over(number):
            return 0
        left = max(self._arrived(self._block(number), now_ns) - place, 0)
        return left + sum(self._due(asset, now_ns, number + 1) for asset in self.assets)

    def _due(self, asset: SimulatedAsset, now_ns: int, block: int) -> int:
        """Samples of the asset from `block` on that are due by now."""
        due = (now_ns - self._start_ns) // asset.kind.period_ns + 1
        due = due if self._samples is None else min(due, self._samples)
        return max(due - block * asset.kind.block_samples, 0)

    def _over(self, number: int) -> bool:
        return self._samples is not None and all(
            number * asset.kind.block_samples >= self._samples for asset in self.assets
        )

    def _arrived(self, block: PlantBlock, now_ns: int | None) -> int:
        if now_ns is None:
            return len(block.arrivals.row)
        return int(np.searchsorted(block.arrivals.arrival_ns, now_ns - self._start_ns, side="right"))

    def _write_block(self, number: int) -> PlantBlock:
        parts = [self._asset_block(place, asset, number) for place, asset in enumerate(self.assets)]
        columns = [np.concatenate(column) for column in zip(*(part for part, _ in parts), strict=True)]
        return PlantBlock(Arrivals(*columns).ordered(), [values for _, values in parts])

    def _asset_block(self, place: int, asset: SimulatedAsset, number: int) -> tuple[list[Any], list[Any]]:
        dirt = corrupt(self._dirt, asset, number)
        first, (values, _) = number * asset.kind.block_samples, asset.block(number)
        rows = np.flatnonzero(dirt.sent & self._wanted(first + np.arange(len(values))))
        rows = np.sort(np.concatenate([rows, rows[dirt.duplicate[rows]]]))
        arrival = (first + rows) * asset.kind.period_ns + dirt.delay_ns[rows]
        told = np.where(dirt.missing, np.nan, values).tolist()
        return [arrival, np.full(len(rows), place), rows, dirt.malformed[rows], dirt.clock_jump[rows]], told

    def _wanted(self, index: NDArray[np.int64]) -> NDArray[np.bool_]:
        return index < (np.iinfo(np.int64).max if self._samples is None else self._samples)

    def _record(self, number: int, block: PlantBlock, i: int) -> Record:
        arrivals, asset = block.arrivals, self.assets[block.arrivals.asset[i]]
        row = int(arrivals.row[i])
        index = number * asset.kind.block_samples + row
        time_ms = (self._start_ns + index * asset.kind.period_ns) // _NS_PER_MS
        time_ms += int(self._dirt.clock_jump_s * 1000) if arrivals.clock_jump[i] else 0
        fields = dict(zip(asset.kind.channels, block.values[arrivals.asset[i]][row], strict=True))
        value = orjson.dumps({"ts": time_ms, "asset": asset.name, **fields})
        value = value[: len(value) // 2] if arrivals.malformed[i] else value
        arrived_ms = (self._start_ns + int(arrivals.arrival_ns[i])) // _NS_PER_MS
        return Record(number * self._capacity + i, arrived_ms, asset.name.encode(), value)
