"""The planner's formulas, worked out by hand."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import SettingsError
from agent.planning.formulas import (
    Costs,
    Figure,
    Load,
    Terms,
    catch_up_s,
    fullest,
    jemalloc_bytes,
    libc_bytes,
    most_assets,
    partitions_for,
    plan,
    redis_entry_bytes,
    replicas_for,
    ring_slots,
    windows_at_once,
)
from agent.windows.ring_buffers import RingBuffers
from anchormoe.windows import WindowShape

WINDOW_S = 1 / 1_055  # 1,055 windows a second, each of 16 records


def costs(window_s: float = WINDOW_S, *, record_s: float = 0.0, event_s: float = 0.0, per_window: float = 1.0) -> Costs:
    values = (record_s, window_s, event_s, per_window, 200, 2_000, 8_500, 50_000, 130)
    return Costs(*(Figure(value, "assumed") for value in values))


PUMPS = Load(assets=5_000, rate_hz=10, channels=8, length=128, hop=16, lateness=4, costs=costs())
TERMS = Terms(peak=1.0, replication=1, base_bytes=Figure(1e9, "assumed"))


def test_the_worked_example_of_five_thousand_pumps() -> None:
    found = plan([PUMPS], TERMS)
    assert found.records_per_s == 50_000
    assert found.windows_per_s == 3_125
    assert found.cores == pytest.approx(2.962, abs=0.001)
    # 2.962 / 0.6 = 4.94; the fullest of six replicas has 8 % more: 5.3, so six, and one that may be away
    assert replicas_for([PUMPS], TERMS) == 7
    assert found.partitions == 24
    assert found.replicas == 8  # three partitions each
    assert found.redis_maxmemory == 128 << 20


def test_records_windows_and_events_each_have_their_price() -> None:
    load = replace(PUMPS, costs=costs(1e-4, record_s=2e-6, event_s=1e-3, per_window=0.1))
    # 50,000 × 2 µs + 3,125 × 100 µs + 312.5 × 1 ms
    assert load.cores == pytest.approx(0.1 + 0.3125 + 0.3125)
    assert load.events_per_s == 312.5


def test_narrow_records_come_once_per_channel_and_chunks_once_per_so_many_samples() -> None:
    assert replace(PUMPS, records_per_sample=8).records_per_s == 400_000
    assert replace(PUMPS, records_per_sample=1 / 100).records_per_s == 500
    assert replace(PUMPS, records_per_sample=1 / 100).windows_per_s == 3_125


def test_two_groups_need_what_both_need() -> None:
    both = plan([PUMPS, replace(PUMPS, assets=1_000)], TERMS)
    assert both.records_per_s == 60_000
    assert both.cores == pytest.approx(2.962 * 1.2, abs=0.001)


def test_the_slots_are_those_of_the_ring_buffers() -> None:
    for length, hop, lateness in [(128, 16, 4), (128, 128, 0), (7, 3, 1), (4, 2, 1)]:
        rings = RingBuffers(WindowShape(length, hop, lateness), 2)
        assert ring_slots(length, hop, lateness) == rings.slots


@pytest.mark.parametrize(
    ("size", "jemalloc", "libc"),
    [
        (1, 16, 24),
        (16, 16, 24),
        (17, 32, 24),
        (25, 32, 40),
        (129, 160, 136),
        (6_784, 7_168, 6_792),
        (4_096, 4_096, 4_104),
    ],
)
def test_what_an_allocation_takes(size: int, jemalloc: int, libc: int) -> None:
    """jemalloc's classes above 4,096 are 5,120, 6,144, 7,168, 8,192; glibc's chunks are multiples of 16 less 8."""
    assert jemalloc_bytes(size) == jemalloc
    assert libc_bytes(size) == libc


def test_a_ring_in_redis_takes_its_key_its_value_and_two_table_entries() -> None:
    # 2 × 24 + 24 + 16 + key 65 + 4 → 72, ring 6,784 + 6 → 6,792
    assert redis_entry_bytes(6_784, 65, "libc") == 48 + 24 + 16 + 72 + 6_792
    # 2 × 32 + 16 + 16 + 80 + 7,168
    assert redis_entry_bytes(6_784, 65, "jemalloc") == 64 + 16 + 16 + 80 + 7_168


@pytest.mark.parametrize(("assets", "parts", "simulated"), [(1_000, 12, 1.28), (1_000, 24, 1.42), (5_000, 24, 1.20)])
def test_the_fullest_part_is_that_of_a_simulation(assets: int, parts: int, simulated: float) -> None:
    assert fullest(assets, parts) == pytest.approx(simulated, abs=0.02)


def test_known_ids_say_how_full_the_fullest_partition_is() -> None:
    found = plan([PUMPS], replace(TERMS, assets_in=lambda partitions: 250))
    assert found.fullest_partition == pytest.approx(250 * 24 / 5_000)


@pytest.mark.parametrize(("replicas", "partitions"), [(1, 6), (3, 6), (4, 12), (7, 24), (30, 60), (601, 2_400)])
def test_partitions_are_two_per_replica_at_least(replicas: int, partitions: int) -> None:
    assert partitions_for(replicas) == partitions


def test_after_an_hour_at_half_the_capacity_the_backlog_takes_an_hour() -> None:
    terms = replace(TERMS, outage_s=3_600.0)
    assert catch_up_s(1.0, terms, 2) == pytest.approx(3_600)
    assert catch_up_s(1.0, terms, 4) == pytest.approx(1_200)
    assert catch_up_s(1.0, terms, 1) == math.inf


def test_an_outage_to_be_caught_up_with_in_half_its_time_needs_three_times_the_capacity() -> None:
    found = plan([PUMPS], replace(TERMS, outage_s=3_600.0, catch_up_s=1_800.0))
    assert found.replicas >= 3 * found.cores
    assert found.catch_up_s is not None
    assert found.catch_up_s <= 1_800
    # an outage, the time after it, and the rebuild: (128 + 32 × 16 + 4) / 10
    assert found.retention_s == pytest.approx(3_600 + 1_800 + 64.4)


def test_the_storage_is_what_comes_in_and_goes_out_until_it_is_deleted() -> None:
    found = plan([PUMPS], replace(TERMS, replication=3))
    assert found.in_bytes_per_s == 50_000 * 200
    assert found.out_bytes_per_s == 3_125 * 2_000
    assert found.kafka_bytes == pytest.approx(16_250_000 * (1_800 + 64.4) * 3 / 0.7)


def test_a_replica_is_asked_for_at_its_share_and_not_for_the_lag_between_commits() -> None:
    found = plan([PUMPS], replace(TERMS, checkpoint_s=5.0), replicas=5)
    assert found.lag_threshold == 2 * 10_000 * 5
    assert found.records_per_replica == pytest.approx(0.6 * 1_055 * 16)


def test_an_agent_of_two_cores_is_half_as_many_agents() -> None:
    one, two = (plan([PUMPS], replace(TERMS, cores_per_replica=cores)) for cores in (1.0, 2.0))
    assert two.records_per_replica == pytest.approx(2 * one.records_per_replica)
    assert two.replicas < one.replicas


def test_an_agent_holds_its_windows_and_those_on_their_way() -> None:
    assert windows_at_once(100, 16, TERMS) == 2 * 312.5  # two batches of 5,000 records
    assert windows_at_once(400, 16, TERMS) == 800  # every asset's, twice
    assert windows_at_once(5_000, 16, TERMS) == 1_024  # no more may wait
    assert plan([PUMPS], TERMS, replicas=1).agent_bytes == 1e9 + 5_000 * 8_500 + 1_024 * 50_000


def test_a_load_that_no_cluster_carries_is_refused_at_once() -> None:
    with pytest.raises(SettingsError, match="agents, and no cluster of Kafka carries so many"):
        plan([replace(PUMPS, assets=10**9, rate_hz=1e6)], TERMS)


@given(st.integers(1, 200_000), st.integers(1, 50_000), st.floats(1e-6, 1e-3))
def test_more_assets_never_need_less(assets: int, more: int, window_s: float) -> None:
    load = replace(PUMPS, rate_hz=0.1, costs=costs(window_s))
    fewer, many = (replicas_for([replace(load, assets=n)], TERMS) for n in (assets, assets + more))
    assert fewer <= many


@given(st.integers(2, 40), st.floats(1e-5, 1e-2))
def test_the_reverse_is_the_inverse(replicas: int, window_s: float) -> None:
    load = replace(PUMPS, costs=costs(window_s))
    most = most_assets([load], TERMS, replicas)
    assert most == 0 or replicas_for([replace(load, assets=most)], TERMS) <= replicas
    assert replicas_for([replace(load, assets=most + 1)], TERMS) > replicas
