"""The workload: simulated assets that fit the plant, the same for the same seed, written to Kafka at an even rate."""

import asyncio
import time
from collections.abc import Sequence

import numpy as np

from agent.errors import SettingsError
from agent.offline.simulate import RecordConverter, asset_ids, simulated_assets
from agent.offline.simulate_outputs import AnyPartitions
from agent.settings import LoadedPlant, ResolvedGroup
from connectors.kafka.cluster import Cluster
from connectors.kafka.producer import RecordProducer
from connectors.simulator import CorruptionSettings, SimulatorSource
from connectors.simulator.plants import PlantKind, SimulatedAsset
from connectors.simulator.plants.kinds import Block
from connectors.simulator.plants.noise import Floats

_TICK_S = 0.05
_LEAD_NS = 6 * 3_600_000_000_000
"""The stream is faster than real time; it starts so far in the past that it does not reach the future."""
_SLOWEST_NS = 2_000_000_000


def workload_assets(plant: LoadedPlant, count: int, seed: int) -> list[SimulatedAsset]:
    """`count` for each group: of a simulated kind where the channels fit one, else with generic signals."""
    try:
        channels = {group.name: group.channel_names for group in plant.groups}
        return simulated_assets(plant.settings, named={}, per_group=count, seed=seed, channels=channels)
    except SettingsError:
        return [asset for group in plant.groups for asset in _generic_assets(group, count, seed)]


def _generic_assets(group: ResolvedGroup, count: int, seed: int) -> list[SimulatedAsset]:
    if group.grid.period_ns > _SLOWEST_NS:
        period_s = group.grid.period_ns / 1e9
        raise SettingsError(f"group {group.name}: a sample every {period_s:g} s is too slow, at most every 2 s")
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
    """Writes records until stopped; a broker that is away for less than half a minute only delays them."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        assets: Sequence[SimulatedAsset],
        converter: RecordConverter,
        *,
        partitions: int,
    ) -> None:
        self._producer, self._topic, self._converter = RecordProducer(cluster), topic, converter
        start_ns = (time.time_ns() - _LEAD_NS) // 1_000_000_000 * 1_000_000_000
        self._source = SimulatorSource(
            assets, corruption=CorruptionSettings(), partitions=partitions, start_ns=start_ns, speed=None
        )
        self.sent = 0

    async def produce(self, per_second: float, stop: asyncio.Event) -> None:
        await self._producer.start()
        await self._source.start(AnyPartitions())
        started_s = asyncio.get_running_loop().time()
        try:
            while not stop.is_set():
                due = int((asyncio.get_running_loop().time() - started_s) * per_second) - self.sent
                if due > 0:
                    await self._write(min(due, int(per_second)))
                await asyncio.sleep(_TICK_S)
        finally:
            await self._source.close()
            await self._producer.close()

    async def _write(self, count: int) -> None:
        for batch in await self._source.poll(max_records=count, timeout_s=1):
            records = [self._converter.convert(record) for record in batch.records]
            await self._producer.write(self._topic, records, partition=batch.partition.number)
            self.sent += len(records)
