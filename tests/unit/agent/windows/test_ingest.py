"""What a batch does to the windows: whose samples are used, what is due, what is cleared; worked out by hand."""

from collections.abc import Sequence

import numpy as np

from agent.windows.group import GroupWindows
from agent.windows.ingest import ClearedAsset, DataGap, Ingested, ingest, reset_asset
from connectors.decoding import Readings
from connectors.records import Batch, Record
from tests.support.plant import CHANNELS, PERIOD_NS, A, pumps

NAMES = ["p1", "p2", "p3"]
Sample = tuple[str, int]


def windows(**options: int) -> GroupWindows:
    return GroupWindows.empty(pumps(**options).spec, cursor=0)  # type: ignore[arg-type]


def take(
    into: GroupWindows, samples: Sequence[Sample], *, first: int = 0, new: list[str] | None = None, now_s: float = 0.0
) -> Ingested:
    """Samples (asset, second), one per record, from offset `first` on."""
    readings = Readings(
        group="pumps",
        assets=NAMES,
        asset=np.array([NAMES.index(name) for name, _ in samples], np.int64),
        time_ns=np.array([second * PERIOD_NS for _, second in samples], np.int64),
        values=np.ones((len(samples), len(CHANNELS)), np.float32),
        record=np.arange(len(samples)),
    )
    records = [Record(first + at, 0, name.encode(), b"", ()) for at, (name, _) in enumerate(samples)]
    return ingest(into, Batch(A, records), readings, now_s=now_s, on_new=(new if new is not None else []).append)


def reasons(result: Ingested) -> list[tuple[int, str]]:
    return [(letter.offset, letter.reason) for letter in result.dead_letters]


def test_due_windows_name_their_asset_their_end_and_the_record_that_made_them_due() -> None:
    result = take(windows(), [("p1", second) for second in range(100, 108)], first=40)
    assert [(due.asset, due.end, due.offset, due.complete) for due in result.due] == [
        ("p1", 102, 43, True),
        ("p1", 104, 45, True),
        ("p1", 106, 47, True),
    ]
    assert result.due[2].values.shape == (2, 4)


def test_a_new_asset_is_told_once() -> None:
    into, new = windows(max_assets=2), list[str]()
    take(into, [("p1", 100), ("p1", 101), ("p2", 100), ("p2", 101)], new=new)
    assert new == ["p1", "p2"]
    result = take(into, [("p1", 102), ("p3", 102)], first=4, new=new)
    assert new == ["p1", "p2"]
    assert reasons(result) == [(5, "too_many_assets")]


def test_readings_below_the_cursor_are_skipped_and_claim_nothing() -> None:
    into, new = windows(), list[str]()
    into.cursor = 2
    result = take(into, [("p2", 100), ("p1", 100), ("p1", 101)], new=new)
    assert (new, into.rings.names) == (["p1"], ["p1"])
    assert not result.affects_events


def test_an_asset_without_room_is_dead_lettered_until_another_one_expires() -> None:
    into = windows(max_assets=2, expire_after_steps=30)
    result = take(into, [("p1", 100), ("p2", 100), ("p3", 101), ("p2", 131), ("p3", 132)])
    assert reasons(result) == [(2, "too_many_assets")]
    assert result.cleared == [ClearedAsset("p1", 4)]
    assert set(into.rings.rows) == {"p2", "p3"}


def test_an_asset_without_room_is_not_remembered() -> None:
    into, new = windows(max_assets=1), list[str]()
    take(into, [("p1", 100), ("p2", 100), ("p3", 100)], new=new)
    assert new == ["p1"]


def test_a_long_record_without_room_is_one_dead_letter() -> None:
    into = windows(max_assets=1, expire_after_steps=30)
    take(into, [("p1", 100)])
    seconds = range(101, 200, 7)  # while p1 would expire in between
    readings = Readings(
        group="pumps",
        assets=NAMES,
        asset=np.ones(len(seconds), np.int64),
        time_ns=np.array(seconds, np.int64) * PERIOD_NS,
        values=np.ones((len(seconds), len(CHANNELS)), np.float32),
        record=np.zeros(len(seconds), np.int64),
    )
    result = ingest(into, Batch(A, [Record(1, 0, b"p2", b"", ())]), readings, now_s=0.0)
    assert reasons(result) == [(1, "too_many_assets")]


def test_an_expired_asset_is_cleared_before_the_next_record_and_begins_afresh() -> None:
    into = windows(expire_after_steps=30)
    take(into, [("p1", 100), ("p2", 100)])
    result = take(into, [("p2", 131), ("p2", 132), ("p1", 133)], first=2)
    assert result.cleared == [ClearedAsset("p1", 3)]
    assert result.gaps == [DataGap("p2", 100, 131, 2)]
    assert into.rings.newest[into.rings.rows["p1"]] == 133


def test_rows_are_looked_up_once_per_batch() -> None:
    into, lookups = windows(), list[int]()
    find = into.row_index.find

    def counted(names: list[str], numbers: np.ndarray, rows: dict[str, int]) -> np.ndarray:
        lookups.append(len(numbers))
        return find(names, numbers, rows)

    into.row_index.find = counted  # type: ignore[method-assign, assignment]
    take(into, [("p1", 100), ("p2", 100)])
    take(into, [("p1", 101), ("p2", 101), ("p3", 101)], first=2)
    assert lookups == [2, 3]


def test_the_windows_of_an_asset_that_idles_are_tracked_by_arrival() -> None:
    into = windows()
    take(into, [("p1", 100), ("p2", 100)], now_s=5.0)
    take(into, [("p2", 101)], first=2, now_s=20.0)
    assert [into.rings.names[row] for row in into.idle.newly_idle(30.0, 20.0)] == ["p1"]


def test_a_reset_clears_samples_and_state_once() -> None:
    into = windows()
    take(into, [("p1", 100), ("p1", 101)])
    result = reset_asset(into, "p1", partition=A, offset=2)
    assert (result.cleared, result.affects_events) == ([ClearedAsset("p1", 2)], True)
    assert not reset_asset(into, "p3", partition=A, offset=3).affects_events
    into.cursor = 9
    assert not reset_asset(into, "p1", partition=A, offset=8).affects_events


def test_after_lost_history_windows_are_complete_from_the_first_sample_on() -> None:
    into = windows()
    into.history_lost = True
    result = take(into, [("p1", second) for second in range(101, 110)])
    assert [(due.end, due.complete) for due in result.due] == [(102, False), (104, False), (106, True), (108, True)]
