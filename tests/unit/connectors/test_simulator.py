"""The simulated plant as a source: the contract, the pace, and corrupted data."""

from collections import Counter

import numpy as np
import pytest

from connectors.decoding import Decoder
from connectors.offsets import MemoryOffsetStore
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import Batch, Partition, RecordLike
from connectors.simulator import CLEAN, CorruptionSettings, SimulatorSource
from connectors.simulator.plants import KINDS, SimulatedAsset
from tests.contracts.source import SourceContract, Watcher, drain, rows

T0 = 1_700_000_000 * 10**9
ASSETS = [SimulatedAsset("pump-1", KINDS["pump"], 1), SimulatedAsset("patient-1", KINDS["patient"], 1)]
FIRST = Partition("simulated", 0)
PUMPS = GroupLayout("pumps", tuple(ChannelField(name, name) for name in KINDS["pump"].channels), ("pump-*",))


class SimulatorWorld:
    def __init__(self, corruption: CorruptionSettings) -> None:
        self._corruption = corruption
        self._offsets = MemoryOffsetStore()

    async def open(self) -> SimulatorSource:
        return SimulatorSource(
            ASSETS,
            corruption=self._corruption,
            partitions=2,
            start_ns=T0,
            speed=None,
            samples=30,
            offsets=self._offsets,
        )


@pytest.mark.parametrize("corruption", [CLEAN, CorruptionSettings(duplicate=0.2)], ids=["clean", "corrupted"])
class TestSimulatorSource(SourceContract):
    @pytest.fixture
    def world(self, corruption: CorruptionSettings) -> SimulatorWorld:
        return SimulatorWorld(corruption)


async def everything(corruption: CorruptionSettings, samples: int, *, max_records: int = 5000) -> list[RecordLike]:
    source = SimulatorSource(ASSETS[:1], corruption=corruption, start_ns=T0, speed=None, samples=samples)
    await source.start(Watcher())
    return (await drain(source, max_records=max_records))[FIRST]


async def test_clean_records_carry_the_physics_and_nothing_else() -> None:
    records = await everything(CLEAN, 300)
    decoded = Decoder([PUMPS], RecordFormat()).decode(Batch(FIRST, records))
    [pumps] = decoded.readings
    assert decoded.rejected == []
    assert pumps.time_ns.tolist() == [T0 + i * 10**8 for i in range(300)]
    expected = np.concatenate([ASSETS[0].block(0)[0], ASSETS[0].block(1)[0]])[:300]
    np.testing.assert_array_equal(pumps.values, expected.astype(np.float32))
    assert [record.offset for record in records] == list(range(300))


async def test_any_cutting_into_polls_gives_the_same_log() -> None:
    assert rows(await everything(CorruptionSettings(), 1000, max_records=7)) == rows(
        await everything(CorruptionSettings(), 1000)
    )


async def x() -> None:
    corruption = CorruptionSettings(
        dropout=0.5, silence=0.2, late_burst=0.4, very_late_burst=0.3, duplicate=0.01, malformed=0.01, clock_jump=0.01
    )
    records = await everything(corruption, 20_000)
    decoded = Decoder([PUMPS], RecordFormat()).decode(Batch(FIRST, records))
    [pumps] = decoded.readings
    reasons = Counter(rejected.reason for rejected in decoded.rejected)
    assert reasons.keys() == {"not_json", "clock_far"}
    assert min(reasons.values()) > 50
    lateness_s = (np.maximum.accumulate(pumps.time_ns) - pumps.time_ns) / 1e9
    assert ((lateness_s > 0) & (lateness_s < 1.5)).sum() > 20
    assert (lateness_s > 5).sum() > 20
    times, counts = np.unique(pumps.time_ns, return_counts=True)
    assert (counts > 1).sum() > 50
    assert np.diff(times).max() > 2 * 10**9
    assert np.isnan(pumps.values).any(axis=0).all()
    assert 0.02 < np.isnan(pumps.values).mean() < 0.2


async def test_records_come_at_the_pace_of_the_clock() -> None:
    now = [T0]
    source = SimulatorSource(ASSETS[:1], corruption=CLEAN, start_ns=T0, speed=2.0, clock=lambda: now[0])
    await source.start(Watcher())
    assert len((await source.poll(max_records=99, timeout_s=0))[0].records) == 1
    now[0] += 10**9
    assert await source.lag() == {FIRST: 20}
    [batch] = await source.poll(max_records=99, timeout_s=0)
    assert [record.timestamp for record in batch.records] == [T0 // 10**6 + 100 * i for i in range(1, 21)]
    assert await source.poll(max_records=99, timeout_s=0) == []
    assert not source.exhausted


async def test_without_a_start_the_plant_begins_at_a_whole_second_now() -> None:
    source = SimulatorSource(ASSETS, corruption=CLEAN, clock=lambda: T0 + 123)
    await source.start(Watcher())
    assert source.start_ns == T0


async def test_a_late_record_has_the_time_of_its_arrival() -> None:
    records = await everything(CorruptionSettings(late_burst=1.0, very_late_burst=0.0, malformed=0, clock_jump=0), 256)
    arrivals = [record.timestamp for record in records]
    assert arrivals == sorted(arrivals)


def test_bursts_that_do_not_fit_a_block_are_refused() -> None:
    with pytest.raises(ValueError, match="12 s"):
        CorruptionSettings(very_late_s=20)
