"""What a checkpoint stores, byte for byte: an agent must read what an earlier version has stored."""

import asyncio
import zlib
from typing import Any

import numpy as np
import orjson
import pytest

from agent.windows.asset_state import AssetState, SensorFault
from agent.windows.commit_metadata import RecordMark
from agent.windows.group import GroupWindows
from agent.windows.hysteresis import Track, Tracks
from agent.windows.ring_buffers import NEVER
from agent.windows.snapshot import layout_digest, make_checkpoint, restore_windows
from connectors.base import StoredWindows
from connectors.memory import MemoryLog, MemorySink, MemoryWindowStore
from tests.support.plant import A, filled, pipeline_on, pumps, put

LAYOUT = "612e556811427b6d"
HEADER = (
    b'{"version":4,"cursor":13,"rebuild":0,"clock":120,"late_runs":{"p1":1},"lossy":false,"whole_from":{},'
    b'"assets":[["p1",107,120,[106,"high",102,[],null]],["p2",-2305843009213693952,107,null],["p3",120,120,null]]}'
)
"""Written by version 0.1.0 for the log below."""


def log() -> MemoryLog:
    """One asset with a state, a gap in a channel and a late sample; one that was reset; one with a single sample."""
    log = filled([1.0, 2.0, 3.0, None, 5.0, -6.0, -7.0, -8.0])
    put(log, "p2", 104, 0.5)
    put(log, "p2", 90, 0.5)
    log.append(A, b"", key=b"p2", timestamp_ms=1, headers=[("anchormoe_reset", b"x")])
    put(log, "p3", 120, 0.25)
    put(log, "p1", 100, 0.5)
    return log


def stored() -> StoredWindows:
    store = MemoryWindowStore()
    asyncio.run(pipeline_on(log(), MemorySink(), store).run(asyncio.Event()))
    (shelf,) = store._stored.values()
    return StoredWindows(shelf.header or b"", {asset: bytes(ring) for asset, ring in shelf.rings.items()})


def old_fields(header: bytes) -> bytes:
    """Without the fields that were added since."""
    known = orjson.loads(HEADER)
    return orjson.dumps({name: value for name, value in orjson.loads(header).items() if name in known})


def test_the_header_has_what_earlier_versions_read() -> None:
    assert old_fields(stored().header) == HEADER


def test_the_header_says_which_log_was_read() -> None:
    header = orjson.loads(stored().header)
    assert header["log"] == {"id": "1", "last": str(RecordMark.of(log().read(A, 12, 1)[0][0])), "committed": 9}


def test_the_layout_is_the_one_that_earlier_versions_wrote() -> None:
    assert layout_digest(pumps().spec) == LAYOUT


def test_a_ring_is_little_endian_float32_slot_by_slot() -> None:
    ring = np.frombuffer(stored().rings["p1"], "<f4").reshape(9, 2)  # slots × channels
    flow = {index: ring[index % 9, 0] for index in range(99, 108)}
    assert [flow[index] for index in (100, 101, 102, 104, 105, 106, 107)] == [1, 2, 3, 5, -6, -7, -8]
    assert np.isnan([flow[99], flow[103]]).all()


def test_windows_of_an_earlier_version_are_restored() -> None:
    rings = stored().rings
    windows = GroupWindows.empty(pumps().spec, cursor=0)
    states = restore_windows(windows, StoredWindows(HEADER, rings))
    assert states == {"p1": AssetState(106, "high", 102, (), None)}
    assert list(windows.rings.rows) == ["p1", "p2", "p3"]
    assert windows.rings.newest.tolist() == [107, NEVER, 120]
    assert (windows.cursor, windows.expiry.clock, windows.late_runs.runs) == (13, 120, {0: 1})
    assert windows.expiry.last_seen(3).tolist() == [120, 107, 120]
    assert old_fields(make_checkpoint(windows, states).header) == HEADER


def test_states_are_stored_with_their_channels_and_reasons() -> None:
    windows = GroupWindows.empty(pumps().spec, cursor=0)
    windows.rings.row("p1")
    states = {"p1": AssetState(8, "unknown", 4, ("flow",), "low_coverage")}
    restored = GroupWindows.empty(pumps().spec, cursor=0)
    ring = windows.rings.pieces(0, whole=True)[0][1]
    assert restore_windows(restored, StoredWindows(make_checkpoint(windows, states).header, {"p1": ring})) == states


def test_sensors_and_tracks_come_back_and_calm_ones_cost_nothing() -> None:
    def restored(state: AssetState) -> tuple[AssetState, dict[str, Any]]:
        windows = GroupWindows.empty(pumps().spec, cursor=0)
        windows.rings.restore("p1", 107, bytes(windows.rings.ring_bytes))
        header = make_checkpoint(windows, {"p1": state}).header
        rings = {"p1": bytes(windows.rings.ring_bytes)}
        states = restore_windows(GroupWindows.empty(pumps().spec, cursor=0), StoredWindows(header, rings))
        assert states is not None
        return states["p1"], orjson.loads(header)

    sensors = (SensorFault("flow", "frozen", 99), SensorFault("flow", "range", 104))
    tracks = Tracks(Track("high", None, (("low", 1500), ("unknown", 1000))), Track("unknown", "low_margin"))
    odd = AssetState(106, "high", 102, (), None, sensors, tracks)
    assert restored(odd)[0] == odd
    calm, header = restored(AssetState(106, "high", 102, (), None, (), Tracks.begin("high", None)))
    assert calm == AssetState(106, "high", 102, ())
    assert "memories" not in header


@pytest.mark.parametrize(
    "memory",
    [b'{"sensors":[["flow"]]}', b'{"tracks":[]}', b'{"tracks":[["a",null,[["b",1e400]]],["a",null,[]]]}', b"7"],
)
def test_a_damaged_memory_means_that_nothing_is_restored(memory: bytes) -> None:
    found = stored()
    header = found.header[:-1] + b',"memories":{"p1":' + memory + b"}}"
    assert restore_windows(GroupWindows.empty(pumps().spec, cursor=0), StoredWindows(header, found.rings)) is None


def test_a_ring_that_is_missing_or_of_another_size_means_that_nothing_is_restored() -> None:
    rings = dict(stored().rings)
    for damaged in (rings | {"p1": b"short"}, {name: ring for name, ring in rings.items() if name != "p3"}):
        windows = GroupWindows.empty(pumps().spec, cursor=0)
        assert restore_windows(windows, StoredWindows(HEADER, damaged)) is None


def test_a_ring_of_another_checkpoint_means_that_nothing_is_restored() -> None:
    """It has the right size, and one sample of a moment before."""
    whole = stored()
    assert restore_windows(GroupWindows.empty(pumps().spec, cursor=0), whole) is not None
    ring = np.frombuffer(whole.rings["p1"], "<f4").copy()
    ring[2] += 1
    mixed = StoredWindows(whole.header, {**whole.rings, "p1": ring.tobytes()})
    assert restore_windows(GroupWindows.empty(pumps().spec, cursor=0), mixed) is None


def test_a_checksum_follows_every_change_of_its_ring() -> None:
    windows = GroupWindows.empty(pumps().spec, cursor=0)
    rings, ends = windows.rings, []
    row = np.array([rings.row("p1")])
    for index in range(30):
        rings.advance(row, np.array([index]))
        rings.write(row, np.array([index]), np.array([[index, 1.0]], dtype=np.float32))
        ends.append(rings.checksum(0))
        assert ends[-1] == zlib.crc32(rings.pieces(0, whole=True)[0][1])
        rings.mark_clean(row)
        assert rings.checksum(0) == ends[-1]
    assert len(set(ends)) == 30
    rings.free("p1")
    assert rings.row("p2") == 0
    assert rings.checksum(0) == zlib.crc32(rings.pieces(0, whole=True)[0][1])


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xff",
        b"null",
        b"[" * 5_000,
        HEADER[:-1],
        HEADER.replace(b'"cursor":13', b'"cursor":-1'),
        HEADER.replace(b'"cursor":13', b'"cursor":5e-324'),
        HEADER.replace(b'"cursor":13', b'"cursor":18446744073709551616'),
        HEADER.replace(b'"cursor":13,', b""),
        HEADER.replace(b'"p2"', b'"p1"'),
        HEADER.replace(b'"late_runs":{"p1"', b'"late_runs":{"p9"'),
        HEADER.replace(b"107,120", b'"NaN",120'),
        HEADER.replace(b'"version":4', b'"checksums":[1]'),
    ],
)
def test_windows_whose_stored_header_is_damaged_are_not_used(header: bytes) -> None:
    assert restore_windows(GroupWindows.empty(pumps().spec, cursor=0), StoredWindows(header, stored().rings)) is None


async def test_a_damaged_header_in_the_store_leads_to_a_rebuild() -> None:
    log, store = filled([1.0] * 10), MemoryWindowStore()
    await pipeline_on(log, MemorySink(), store).run(asyncio.Event())
    (shelf,) = store._stored.values()
    shelf.header = b"{}"
    put(log, "p1", 110, 1.0)
    pipeline = pipeline_on(log, MemorySink(), store)
    await pipeline.run(asyncio.Event())
    assert pipeline.counters.records == 11
