"""The rings' bytes: what a checkpoint writes is what a restore reads."""

import numpy as np
import pytest

from agent.windows.ring_buffers import RingBuffers
from anchormoe.windows import WindowShape

SHAPE = WindowShape(length=4, hop=2, lateness=1)


def rings_with(*samples: tuple[str, int, float]) -> RingBuffers:
    rings = RingBuffers(SHAPE, 2)
    for name, index, value in samples:
        put(rings, name, index, value)
    return rings


def put(rings: RingBuffers, name: str, index: int, value: float) -> None:
    row = np.array([rings.row(name)])
    rings.advance(row, np.maximum(np.array([index]), rings.newest[row]))
    rings.write(row, np.array([index]), np.array([[value, -value]], dtype=np.float32))


def test_pieces_patched_into_an_old_copy_give_the_present_ring() -> None:
    rings = rings_with(("a", 7, 1.0), ("a", 8, 2.0))
    (offset, stored), *_ = rings.pieces(0, whole=True)
    assert offset == 0
    rings.mark_clean(np.array([0]))
    for index in range(9, 14):
        put(rings, "a", index, float(index))
    copy = bytearray(stored)
    for at, piece in rings.pieces(0):
        copy[at : at + len(piece)] = piece
    assert bytes(copy) == rings.pieces(0, whole=True)[0][1]
    assert sum(len(piece) for _, piece in rings.pieces(0)) == 5 * rings.slot_bytes


def test_a_restored_ring_cuts_the_same_windows() -> None:
    rings = rings_with(*[("a", index, float(index)) for index in range(20, 33)])
    other = RingBuffers(SHAPE, 2)
    other.restore("a", int(rings.newest[0]), rings.pieces(0, whole=True)[0][1])
    where = np.array([0]), np.array([30])
    np.testing.assert_array_equal(other.cut(*where), rings.cut(*where))


def test_a_ring_of_another_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="ring of a has 3 bytes"):
        RingBuffers(SHAPE, 2).restore("a", 5, b"abc")


def test_a_lost_ring_is_written_whole() -> None:
    rings = rings_with(("a", 7, 1.0))
    rings.mark_clean(np.array([0]))
    rings.mark_lost([0])
    assert rings.dirty_rows().tolist() == [0]
    assert len(rings.pieces(0)[0][1]) == rings.ring_bytes


def test_many_assets_stay_within_the_promised_memory() -> None:
    shape = WindowShape(length=128, hop=16, lateness=8)
    rings = RingBuffers(shape, 8)
    for number in range(1000):
        rings.row(f"asset-{number}")
    promised = 2 * (shape.length + shape.hop + shape.lateness) * 8 * 4 + 1024
    assert rings.ring_bytes <= promised
