"""Whatever raises while a batch is ingested leaves the windows as they were: what follows is as if it had not come."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.windows.group import GroupWindows, all_or_nothing
from agent.windows.ingest import Ingested, ingest
from agent.windows.ring_buffers import RingBuffers
from agent.windows.snapshot import make_checkpoint
from connectors.decoding import Readings
from connectors.records import Batch, Record
from tests.support.plant import CHANNELS, PERIOD_NS, A, pumps

NAMES = ["a", "b", "c", "d", "e"]
AFTER, ROOM = 30, 3
Entry = tuple[int, int, float]
"""Asset, second and value."""


class Bug(Exception):
    """A fault of ours."""


@st.composite
def logs(draw: st.DrawFn) -> list[Entry]:
    steps = st.tuples(st.integers(0, 4), st.integers(-2, 6) | st.integers(8, 40), st.sampled_from([1.0, np.nan]))
    at = [500, 500, 480, 520, 100]
    entries = []
    for asset, step, value in draw(st.lists(steps, min_size=4, max_size=40)):
        at[asset] += step
        entries.append((asset, at[asset], value))
    return entries


def take(windows: GroupWindows, entries: list[Entry], first: int) -> Ingested:
    if not entries:
        return Ingested("pumps", A)
    readings = Readings(
        group="pumps",
        assets=NAMES,
        asset=np.array([asset for asset, _, _ in entries], np.int64),
        time_ns=np.array([second * PERIOD_NS for _, second, _ in entries], np.int64),
        values=np.array([[value, 2.0] for _, _, value in entries], np.float32).reshape(-1, len(CHANNELS)),
        record=np.arange(len(entries)),
    )
    records = [Record(first + at, 0, NAMES[asset].encode(), b"") for at, (asset, _, _) in enumerate(entries)]
    return ingest(windows, Batch(A, records), readings, now_s=float(first))


def comparable(result: Ingested) -> Any:
    due = [(each.asset, each.end, each.offset, each.complete, each.values.tobytes()) for each in result.due]
    letters = [(letter.offset, letter.reason) for letter in result.dead_letters]
    return due, result.gaps, result.clock_regressions, result.cleared, letters


def content(windows: GroupWindows) -> Any:
    """All that decides what follows, and what would be stored."""
    rings, used = windows.rings, len(windows.rings)
    checkpoint = make_checkpoint(windows, {})
    idle = [column[:used].tolist() for column in windows.idle.state()]
    rows = sorted((name, row, rings.pieces(row, whole=True)) for name, row in rings.rows.items())
    seen = windows.expiry.last_seen(used).tolist()
    clock = windows.expiry.clock
    return (list(rings.names), rows, rings.newest.tolist(), seen, clock, idle, set(windows.expired), checkpoint)


def raise_at_call(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """The n-th change of the ring buffers raises, before or in the middle of it."""
    left = [calls]

    def counted(name: str) -> None:
        original = getattr(RingBuffers, name)

        def call(self: RingBuffers, *arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise Bug(name)
            return original(self, *arguments, **options)

        monkeypatch.setattr(RingBuffers, name, call)

    for name in ("_mark", "_empty", "_write_whole", "_write_each", "cut", "_add", "free", "advance"):
        counted(name)


@settings(max_examples=150, deadline=None)
@given(logs(), st.data())
def test_a_batch_that_raises_anywhere_changes_nothing(entries: list[Entry], data: st.DataObject) -> None:
    spec = pumps(max_assets=ROOM, expire_after_steps=AFTER).spec
    low = data.draw(st.integers(0, len(entries) - 1))
    high = data.draw(st.integers(low + 1, len(entries)))
    hurt, plain = GroupWindows.empty(spec, cursor=0), GroupWindows.empty(spec, cursor=0)
    for each in (hurt, plain):
        take(each, entries[:low], 0)
    before = content(hurt)
    with pytest.MonkeyPatch.context() as monkeypatch:
        raise_at_call(monkeypatch, data.draw(st.integers(1, 12)))
        try:
            with all_or_nothing([hurt]):
                take(hurt, entries[low:high], low)
                raise Bug("at the end")
        except Bug:
            pass
    assert content(hurt) == before
    rest = [comparable(take(each, entries[high:], high)) for each in (hurt, plain)]
    assert rest[0] == rest[1]
    assert content(hurt) == content(plain)
