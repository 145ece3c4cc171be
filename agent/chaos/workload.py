"""The workload: simulated assets that fit the plant, the same for the same seed, written to Kafka at an even rate."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agent.errors import SettingsError
from agent.offline.simulate import RecordConverter, asset_ids, simulated_assets
from agent.offline.simulate_outputs import AnyPartitions
from agent.settings import LoadedPlant, ResolvedGroup
from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.producer import RecordProducer
from connectors.records import RecordLike
from connectors.simulator import CorruptionSettings, SimulatorSource
from connectors.simulator.plants import PlantKind, SimulatedAsset
from connectors.simulator.plants.kinds import Block
from connectors.simulator.plants.noise import Floats

_TICK_S = 0.05
_LEAD_NS = 6 * 3_600_000_000_000
"""The stream is faster than real time; it starts so far in the past that it does not reach the future."""
_SLOWEST_NS = 2_000_000_000
_BURST_AT_ONCE = 500
_TRIES, _TRY_AGAIN_S = 5, 2.0


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


@dataclass(slots=True)
class _Stream:
    """Simulated assets; the partitions of the source begin at `first_partition` of the topic."""

    source: SimulatorSource
    first_partition: int
    assets: int


class Workload:
    """Writes records until stopped; a broker that is away for less than a minute only delays them."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        assets: Sequence[SimulatedAsset],
        converter: RecordConverter,
        *,
        partitions: int,
    ) -> None:
        self._cluster, self._producer, self._topic = cluster, RecordProducer(cluster), topic
        self._converter, self.assets = converter, list(assets)
        self.partitions = self.first_partitions = partitions
        self._start_ns = (time.time_ns() - _LEAD_NS) // 1_000_000_000 * 1_000_000_000
        self._streams = [_Stream(self._simulate(assets, partitions), 0, len(assets))]
        self._flowing, self._writing = asyncio.Event(), asyncio.Lock()
        self._flowing.set()
        self.sent, self.newest_ms = 0, 0
        self.newest_by_asset: dict[str, int] = {}

    async def produce(self, per_second: float, stop: asyncio.Event) -> None:
        await self._producer.start()
        for stream in self._streams:
            await stream.source.start(AnyPartitions())
        due, before_s = 0.0, time.monotonic()
        try:
            while not stop.is_set():
                now_s = time.monotonic()
                due, before_s = min(due + (now_s - before_s) * per_second, per_second), now_s
                if due >= 1 and self._flowing.is_set():
                    due -= await self.burst(int(due))
                await asyncio.sleep(_TICK_S)
        finally:
            for stream in self._streams:
                await stream.source.close()
            await self._producer.close()

    async def pause(self) -> None:
        """Returns when everything that was written is acknowledged."""
        self._flowing.clear()
        async with self._writing:
            pass

    def resume(self) -> None:
        self._flowing.set()

    async def burst(self, count: int) -> int:
        """At once, whether it flows or not; returns how many. Every asset gets as many as any other."""
        written = 0
        async with self._writing:
            while written < count:
                for stream in self._streams:
                    share = min(count - written, _BURST_AT_ONCE) * stream.assets // len(self.assets)
                    written += await self._write(stream, max(share, 1))
        return written

    async def add_partition(self, asset: SimulatedAsset) -> None:
        """The topic has one more partition now, with an asset of its own."""
        stream = _Stream(self._simulate([asset], 1), self.partitions, 1)
        await stream.source.start(AnyPartitions())
        self._streams.append(stream)
        self.assets.append(asset)
        self.partitions += 1

    async def write(self, records: Sequence[RecordLike], *, partition: int) -> None:
        """Records of the caller's own, between those of the simulation."""
        async with self._writing:
            await self._send(records, partition)
            self.sent += len(records)

    async def reconnect(self) -> None:
        """For a topic that was made again or has grown: what the producer knows of it is no longer true."""
        async with self._writing:
            await self._replace_producer()

    async def _replace_producer(self) -> None:
        await self._producer.close()
        self._producer = RecordProducer(self._cluster)
        await self._producer.start()

    async def _send(self, records: Sequence[RecordLike], partition: int) -> None:
        """What was not acknowledged is written again: the log may hold it twice then, as any log may."""
        for tried in range(_TRIES):
            try:
                if tried:
                    await self._replace_producer()
                await self._producer.write(self._topic, records, partition=partition)
                return
            except ConnectorError:
                if tried + 1 == _TRIES:
                    raise
            await asyncio.sleep(_TRY_AGAIN_S)

    def _note(self, record: RecordLike) -> None:
        asset = (record.key or b"").decode(errors="replace")
        self.newest_by_asset[asset] = max(self.newest_by_asset.get(asset, 0), record.timestamp)
        self.newest_ms = max(self.newest_ms, record.timestamp)

    def _simulate(self, assets: Sequence[SimulatedAsset], partitions: int) -> SimulatorSource:
        return SimulatorSource(
            assets, corruption=CorruptionSettings(), partitions=partitions, start_ns=self._start_ns, speed=None
        )

    async def _write(self, stream: _Stream, count: int) -> int:
        written = 0
        for batch in await stream.source.poll(max_records=count, timeout_s=1):
            records = [self._converter.convert(record) for record in batch.records]
            partition = stream.first_partition + batch.partition.number
            await self._send(records, partition)
            written += len(records)
            for record in records:
                self._note(record)
        self.sent += written
        return written
