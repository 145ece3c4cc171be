"""The known stream: made-up assets that fit the plant, the same for the same seed, written at an even pace."""

import asyncio
import time
from collections.abc import Collection, Sequence

import numpy as np

from agent.errors import SettingsError
from agent.offline.simulate import Dialect, asset_ids, simulated_assets
from agent.settings import LoadedPlant, ResolvedGroup
from connectors.kafka.cluster import Cluster
from connectors.kafka.producer import RecordProducer
from connectors.records import Partition
from connectors.simulator import CorruptionSettings, SimulatorSource
from connectors.simulator.plants import PlantKind, SimulatedAsset
from connectors.simulator.plants.kinds import Block
from connectors.simulator.plants.noise import Floats

_TICK_S = 0.05
_LEAD_NS = 6 * 3_600_000_000_000
"""The stream runs faster than real time; it begins so far back that it does not reach the future."""
_SLOWEST_NS = 2_000_000_000


def known_assets(plant: LoadedPlant, count: int, seed: int) -> list[SimulatedAsset]:
    """`count` for each group: of a simulated kind where the channels fit one, else with signals of no meaning."""
    try:
        channels = {group.name: group.channel_names for group in plant.groups}
        return simulated_assets(plant.settings, named={}, per_group=count, seed=seed, channels=channels)
    except SettingsError:
        return [asset for group in plant.groups for asset in _meaningless(group, count, seed)]


def _meaningless(group: ResolvedGroup, count: int, seed: int) -> list[SimulatedAsset]:
    if group.grid.period_ns > _SLOWEST_NS:
        raise SettingsError(f"groups: {group.name} has one sample in {group.grid.period_ns / 1e9:g} s; too slow here")
    kind = PlantKind(
        name=group.name,
        channels=group.channel_names,
        units=("",) * len(group.channel_names),
        states=("normal", "odd"),
        period_ns=group.grid.period_ns,
        signals=lambda block: _signals(block, group.channel_names),
    )
    return [SimulatedAsset(name, kind, seed) for name in asset_ids(group.assets, count)]


def _signals(block: Block, channels: Sequence[str]) -> Floats:
    odd = 3.0 * block.strength("odd")
    return np.stack([block.drift(name, 5) + 0.2 * block.noise(name) + odd for name in channels], axis=1)


class Workload:
    """Records until `stop`; a broker that is gone for less than half a minute only delays them."""

    def __init__(
        self, cluster: Cluster, topic: str, assets: Sequence[SimulatedAsset], dialect: Dialect, *, partitions: int
    ) -> None:
        self._writer, self._topic, self._dialect = RecordProducer(cluster), topic, dialect
        start_ns = (time.time_ns() - _LEAD_NS) // 1_000_000_000 * 1_000_000_000
        self._source = SimulatorSource(
            assets, corruption=CorruptionSettings(), partitions=partitions, start_ns=start_ns, speed=None
        )
        self.sent = 0

    async def flow(self, per_second: float, stop: asyncio.Event) -> None:
        await self._writer.start()
        await self._source.start(_Everything())
        begun = asyncio.get_running_loop().time()
        try:
            while not stop.is_set():
                due = int((asyncio.get_running_loop().time() - begun) * per_second) - self.sent
                if due > 0:
                    await self._write(min(due, int(per_second)))
                await asyncio.sleep(_TICK_S)
        finally:
            await self._source.close()
            await self._writer.close()

    async def _write(self, count: int) -> None:
        for batch in await self._source.poll(max_records=count, timeout_s=1):
            records = [self._dialect.written(record) for record in batch.records]
            await self._writer.write(self._topic, records, partition=batch.partition.number)
            self.sent += len(records)


class _Everything:
    """An assignment that takes what it is given."""

    async def assigned(self, partitions: Collection[Partition]) -> None: ...
    async def revoked(self, partitions: Collection[Partition]) -> None: ...
