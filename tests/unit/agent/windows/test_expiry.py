"""Assets that stop sending are forgotten and their rows reused; those that only lag behind are not."""

import asyncio

import numpy as np
import orjson

from agent.runtime.pipeline import Pipeline, PipelineLimits
from agent.windows.expiry import AssetExpiry
from agent.windows.ring_buffers import NEVER, RingBuffers
from anchormoe.windows import WindowShape
from connectors.memory import MemoryLog, MemorySink, MemoryWindowStore
from connectors.records import DEAD_LETTERS, EVENTS
from tests.support.plant import A, pipeline_on, pumps, put


def record(expiry: AssetExpiry, *samples: tuple[int, int], first: int = 0) -> None:
    """Samples (row, index), one per record, from offset `first` on."""
    rows, index = zip(*samples, strict=True)
    expiry.record(np.array(rows), np.array(index), np.arange(first, first + len(rows)))


def test_an_asset_expires_when_the_clock_has_advanced_without_it() -> None:
    expiry = AssetExpiry(after_steps=10)
    record(expiry, (0, 100), (1, 100), (1, 109))
    assert expiry.expired().tolist() == []
    record(expiry, (1, 110))
    assert expiry.expired().tolist() == [0]


def test_an_asset_that_lags_behind_does_not_expire() -> None:
    expiry = AssetExpiry(after_steps=10)
    record(expiry, (0, 100), (1, 500), (0, 101), (1, 505), (0, 102), (1, 511))
    assert expiry.expired().tolist() == []


def test_one_record_advances_the_clock_by_no_more_than_the_limit() -> None:
    expiry = AssetExpiry(after_steps=10, max_advance_steps=4)
    record(expiry, (0, 100), (1, 100))
    record(expiry, (1, 5000), first=2)
    assert (expiry.clock, expiry.expired().tolist()) == (104, [])
    record(expiry, (1, 5001), (1, 5002), first=3)
    assert (expiry.clock, expiry.expired().tolist()) == (112, [0])


def test_the_parts_of_a_long_record_advance_the_clock_together_by_no_more_than_the_limit() -> None:
    expiry = AssetExpiry(after_steps=10, max_advance_steps=4)
    record(expiry, (0, 100), (1, 100))
    for index in (103, 150, 900):
        expiry.record(np.array([1]), np.array([index]), np.array([2]))
    assert expiry.clock == 104
    record(expiry, (1, 901), first=3)
    assert expiry.clock == 108


def test_the_samples_before_which_an_asset_may_have_expired_are_found() -> None:
    expiry = AssetExpiry(after_steps=10)
    record(expiry, (0, 100), (1, 100), (1, 105))
    rows, none = np.array([1, 0, -3]), np.zeros(3, dtype=np.bool_)
    assert expiry.undecided(rows, np.array([112, 113, 114]), new=none).tolist() == [False, True, False]
    # An asset that is seen with the first sample expires before the third.
    assert expiry.undecided(rows, np.array([112, 115, 122]), new=none).tolist() == [False, True, True]
    # Whether there is room for a new asset depends on asset 0, which has expired by then.
    new = np.array([False, False, True])
    assert expiry.undecided(np.array([1, 1, -3]), np.array([109, 110, 111]), new=new).tolist() == [False, False, True]


def test_a_freed_row_is_empty_and_the_next_assets() -> None:
    rings = RingBuffers(WindowShape(length=4, hop=2, lateness=1), 1)
    rows = np.array([rings.row("a"), rings.row("b")])
    rings.advance(rows, np.array([7, 7]))
    rings.write(rows, np.array([7, 7]), np.ones((2, 1), np.float32))
    assert rings.free("a") == 0
    assert (list(rings.rows), rings.dirty_rows().tolist(), rings.newest[0]) == (["b"], [1], NEVER)
    rings.mark_lost(range(len(rings)))
    assert rings.dirty_rows().tolist() == [1]
    assert (rings.row("c"), rings.names) == (0, ["c", "b"])
    assert np.isnan(rings.cut(np.array([0]), np.array([8]))).all()


def plant_with(*entries: tuple[str, int]) -> tuple[MemorySink, Pipeline, MemoryWindowStore]:
    """The sink, the pipeline and the store after a log, where assets expire after 30 seconds."""
    log, sink, store = MemoryLog([A]), MemorySink(), MemoryWindowStore()
    for asset, second in entries:
        put(log, asset, second, 1.0)
    group = pumps(policy="all", max_assets=2, expire_after_steps=30)
    pipeline = pipeline_on(log, sink, store, group=group, limits=PipelineLimits(checkpoint_records=3))
    asyncio.run(pipeline.run(asyncio.Event()))
    return sink, pipeline, store


def kinds(sink: MemorySink, asset: bytes) -> list[str]:
    return [
        dict(message.headers)["ce_type"].decode().removeprefix("anchormoe.")
        for message in sink.of(EVENTS)
        if message.key == asset
    ]


def test_a_short_silence_is_a_gap_and_a_long_one_a_new_beginning() -> None:
    others = [("b", second) for second in range(100, 160, 5)]
    sink, _, _ = plant_with(("a", 100), *others[:5], ("a", 129))
    assert "gap" in kinds(sink, b"a")
    sink, pipeline, _ = plant_with(("a", 100), *others, ("a", 160))
    assert "gap" not in kinds(sink, b"a")
    assert pipeline.counters.expired_assets == 1


def test_an_expired_asset_makes_room() -> None:
    sink, pipeline, _ = plant_with(("a", 100), ("b", 100), ("c", 101), ("b", 131), ("c", 132), ("c", 133))
    assert [message.key for message in sink.of(DEAD_LETTERS)] == [b"c"]
    assert pipeline.counters.dead_letters["too_many_assets"] == 1
    assert pipeline.counters.expired_assets == 1


def test_the_stored_window_of_an_expired_asset_is_removed() -> None:
    entries = [("a", 100), ("b", 100), ("b", 131), ("b", 132), ("b", 133)]
    _, _, store = plant_with(*entries)
    [shelf] = store._stored.values()
    assert list(shelf.rings) == ["b"]


def test_one_record_from_the_far_future_makes_no_neighbour_expire() -> None:
    """Within the allowed skew or not: the others keep their windows and their states."""
    log, sink = MemoryLog([A]), MemorySink()
    for second in range(100, 110):
        put(log, "a", second, 1.0)
        put(log, "b", second, 1.0)
    put(log, "wrong", 4_000_000_000, 1.0)
    for second in range(110, 120):
        put(log, "a", second, 1.0)
        put(log, "b", second, 1.0)
    group = pumps(policy="all", expire_after_steps=30, max_advance_steps=20)
    pipeline = pipeline_on(log, sink, MemoryWindowStore(), group=group)
    asyncio.run(pipeline.run(asyncio.Event()))
    assert pipeline.counters.expired_assets == 0
    assert "late" not in pipeline.counters.dead_letters
    previous = [orjson.loads(message.value or b"")["previous_state"] for message in sink.of(EVENTS)]
    assert previous.count(None) == 2
