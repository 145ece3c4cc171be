"""The log of a simulated plant: any block of a partition can be computed at any time, with equal bytes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from connectors.records import Record
from connectors.simulator.corruption import CorruptionSettings, corrupt_block
from connectors.simulator.plants import SimulatedAsset
from connectors.timestamps import NS_PER_MS


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The records of a block in log order: arrival after the plant's start, index of the asset, row of the sample."""

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
    """A partition's records of 25.6 s; `values` by asset and row, NaN (null in the record) = not measured."""

    arrivals: Arrivals
    values: list[list[list[float]]]


class PartitionLog:
    """The records of some assets. An offset is block × capacity + index; a block rarely uses all of its own."""

    def __init__(
        self, assets: Sequence[SimulatedAsset], corruption: CorruptionSettings, *, start_ns: int, samples: int | None
    ) -> None:
        self.assets = tuple(assets)
        self._corruption = corruption
        self._start_ns = start_ns
        self._samples = samples
        nominal = sum(asset.kind.block_samples for asset in assets)
        self._capacity = nominal if corruption.duplicate == 0 else 2 * nominal
        self._block = lru_cache(maxsize=3)(self._make_block)

    def read(self, offset: int, max_records: int, now_ns: int | None) -> tuple[list[Record], int]:
        """What has arrived by `now_ns` (None = everything), no further than the end of a block."""
        number, first = divmod(max(offset, 0), self._capacity)
        if self._is_past_end(number):
            return [], offset
        block = self._block(number)
        stop = min(first + max_records, self._arrived(block, now_ns))
        records = [self._record(number, block, i) for i in range(first, stop)]
        done = max(first, stop) >= len(block.arrivals.row)
        return records, (number + 1) * self._capacity if done else number * self._capacity + max(first, stop)

    def at_end(self, offset: int) -> bool:
        return self._is_past_end(max(offset, 0) // self._capacity)

    def lag(self, offset: int, now_ns: int) -> int:
        """Exact within the block; later blocks count as if no record were lost or duplicated."""
        number, first = divmod(max(offset, 0), self._capacity)
        if self._is_past_end(number):
            return 0
        left = max(self._arrived(self._block(number), now_ns) - first, 0)
        return left + sum(self._due(asset, now_ns, number + 1) for asset in self.assets)

    def _due(self, asset: SimulatedAsset, now_ns: int, block: int) -> int:
        """Samples of the asset from `block` on that are due by now."""
        due = (now_ns - self._start_ns) // asset.kind.period_ns + 1
        due = due if self._samples is None else min(due, self._samples)
        return max(due - block * asset.kind.block_samples, 0)

    def _is_past_end(self, number: int) -> bool:
        return self._samples is not None and all(
            number * asset.kind.block_samples >= self._samples for asset in self.assets
        )

    def _arrived(self, block: PlantBlock, now_ns: int | None) -> int:
        if now_ns is None:
            return len(block.arrivals.row)
        return int(np.searchsorted(block.arrivals.arrival_ns, now_ns - self._start_ns, side="right"))

    def _make_block(self, number: int) -> PlantBlock:
        parts = [self._asset_block(index, asset, number) for index, asset in enumerate(self.assets)]
        columns = [np.concatenate(column) for column in zip(*(part for part, _ in parts), strict=True)]
        return PlantBlock(Arrivals(*columns).ordered(), [values for _, values in parts])

    def _asset_block(self, index: int, asset: SimulatedAsset, number: int) -> tuple[list[Any], list[Any]]:
        """The columns of `Arrivals`, not yet in log order, and the values by row."""
        corrupted = corrupt_block(self._corruption, asset, number)
        first, (values, _) = number * asset.kind.block_samples, asset.block(number)
        rows = np.flatnonzero(corrupted.sent & self._within_samples(first + np.arange(len(values))))
        rows = np.sort(np.concatenate([rows, rows[corrupted.duplicate[rows]]]))
        arrival_ns = (first + rows) * asset.kind.period_ns + corrupted.delay_ns[rows]
        columns = [arrival_ns, np.full(len(rows), index), rows, corrupted.malformed[rows], corrupted.clock_jump[rows]]
        return columns, np.where(corrupted.missing, np.nan, values).tolist()

    def _within_samples(self, index: NDArray[np.int64]) -> NDArray[np.bool_]:
        return index < (np.iinfo(np.int64).max if self._samples is None else self._samples)

    def _record(self, number: int, block: PlantBlock, i: int) -> Record:
        arrivals, asset = block.arrivals, self.assets[block.arrivals.asset[i]]
        row = int(arrivals.row[i])
        index = number * asset.kind.block_samples + row
        time_ms = (self._start_ns + index * asset.kind.period_ns) // NS_PER_MS
        time_ms += int(self._corruption.clock_jump_s * 1000) if arrivals.clock_jump[i] else 0
        fields = dict(zip(asset.kind.channels, block.values[arrivals.asset[i]][row], strict=True))
        value = orjson.dumps({"ts": time_ms, "asset": asset.name, **fields})
        value = value[: len(value) // 2] if arrivals.malformed[i] else value
        arrived_ms = (self._start_ns + int(arrivals.arrival_ns[i])) // NS_PER_MS
        return Record(number * self._capacity + i, arrived_ms, asset.name.encode(), value)
