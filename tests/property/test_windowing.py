"""What always holds of the windows: the log decides, however it is cut into batches."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.windows.assigner import Samples, assign_windows
from agent.windows.ring_buffers import RingBuffers
from agent.windows.too_much import TooMuchAtOnce
from anchormoe.windows import WindowShape

CHANNELS = 2
IDLE = 40
Sample = tuple[int, int, list[float]]
"""Asset, index and values."""
Due = tuple[int, int, int, bytes]
"""Asset, end, position in the log and the window's bytes."""
Gap = tuple[int, int, int, int]
"""Asset, last index before, first index after and position in the log."""


@st.composite
def shapes(draw: st.DrawFn) -> WindowShape:
    length = draw(st.integers(1, 12))
    return WindowShape(length, draw(st.integers(1, length)), draw(st.integers(0, 6)))


@st.composite
def logs(draw: st.DrawFn) -> list[Sample]:
    """Samples of a few assets that mostly move on, sometimes repeat, fall back or jump."""
    steps = draw(
        st.lists(
            st.tuples(st.integers(0, 2), st.integers(-8, 8) | st.integers(30, 120), st.integers(0, 3)), max_size=60
        )
    )
    at = {0: 1000, 1: 2000, 2: -50}
    log: list[Sample] = []
    for number, (asset, step, given_channels) in enumerate(steps):
        at[asset] += step
        values = [float(number + 1) if given_channels >> c & 1 else np.nan for c in range(CHANNELS)]
        log.append((asset, at[asset], values))
    return log


def in_batches(log: list[Sample], shape: WindowShape, cuts: list[int]) -> tuple[list[Due], list[Gap], list[int]]:
    """Due windows, gaps and late samples of a log that is cut at the given positions."""
    rings = RingBuffers(shape, CHANNELS)
    rows = {asset: rings.row(str(asset)) for asset in range(3)}
    due: list[Due] = []
    gaps: list[Gap] = []
    late: list[int] = []
    bounds = sorted({0, len(log), *(cut for cut in cuts if cut < len(log))})
    for low, high in itertools.pairwise(bounds):
        part = log[low:high]
        applied = assign_windows(
            rings,
            Samples(
                np.array([rows[asset] for asset, _, _ in part]),
                np.array([index for _, index, _ in part]),
                np.array([values for _, _, values in part], dtype=np.float32),
            ),
            idle_after_steps=IDLE,
        )
        windows = zip(applied.due.row, applied.due.end, applied.due.sample, applied.due.windows, strict=True)
        due += [(int(row), int(end), int(sample) + low, window.tobytes()) for row, end, sample, window in windows]
        silences = zip(applied.gaps.row, applied.gaps.last, applied.gaps.back, applied.gaps.sample, strict=True)
        gaps += [(int(row), int(last), int(back), int(sample) + low) for row, last, back, sample in silences]
        late += [low + int(at) for at in np.flatnonzero(applied.late)]
    return due, gaps, late


def one_by_one(log: list[Sample], shape: WindowShape) -> tuple[list[Due], list[Gap], list[int]]:
    """The rules written down plainly: a dictionary of slots, one sample after the other."""
    slots: dict[tuple[int, int], list[float]] = {}
    newest: dict[int, int] = {}
    due: list[Due] = []
    gaps: list[Gap] = []
    late: list[int] = []
    for number, (asset, index, values) in enumerate(log):
        before = newest.get(asset)
        if before is not None and index < before - shape.lateness:
            late.append(number)
            continue
        if before is not None and index - before >= IDLE:
            gaps.append((asset, before, index, number))
        slot = slots.setdefault((asset, index), [np.nan] * CHANNELS)
        slots[asset, index] = [old if np.isnan(new) else new for old, new in zip(slot, values, strict=True)]
        newest[asset] = index if before is None else max(before, index)
        low = (index if before is None else before) - shape.lateness
        for end in range(low + 1, newest[asset] - shape.lateness + 1):
            if end % shape.hop:
                continue
            window = np.array(
                [slots.get((asset, at), [np.nan] * CHANNELS) for at in range(end - shape.length, end)], dtype=np.float32
            ).T
            if not np.isnan(window).all():
                due.append((asset, end, number, np.ascontiguousarray(window).tobytes()))
    return due, gaps, late


@settings(max_examples=300, deadline=None)
@given(logs(), shapes(), st.lists(st.integers(1, 60), max_size=5))
def test_any_cutting_of_the_log_gives_what_the_plain_rules_give(
    log: list[Sample], shape: WindowShape, cuts: list[int]
) -> None:
    assert in_batches(log, shape, cuts) == one_by_one(log, shape)


@settings(max_examples=100, deadline=None)
@given(logs(), shapes(), st.integers(0, 60), st.integers(1, 10))
def test_records_that_come_twice_change_no_window(log: list[Sample], shape: WindowShape, at: int, count: int) -> None:
    """A redelivery repeats the end of what was read; the de-duplicated windows stay the same."""
    again = log[: at + count] + log[at:]
    once = {entry[:2] + entry[3:] for entry in one_by_one(log, shape)[0]}
    rings_of_twice = {entry[:2] + entry[3:] for entry in in_batches(again, shape, [at + count])[0]}
    assert rings_of_twice == once or _overwrites(log, at, count)


def _overwrites(log: list[Sample], at: int, count: int) -> bool:
    """Two different samples in one slot inside the repeated part: then the order of the log rightly matters."""
    slots = [(asset, index) for asset, index, _ in log[at:]]
    return len(slots) != len(set(slots))


@settings(max_examples=150, deadline=None)
@given(shapes(), st.data())
def test_any_order_within_the_lateness_gives_the_same_windows(shape: WindowShape, data: st.DataObject) -> None:
    """Delays that stay within the lateness are absorbed, when no two samples share a slot."""
    count = data.draw(st.integers(1, 50))
    delays = data.draw(st.lists(st.integers(0, shape.lateness), min_size=count, max_size=count))
    log = [(0, 500 + at, [float(at), np.nan]) for at in range(count)]
    shuffled = [log[at] for at in sorted(range(count), key=lambda at: (at + delays[at], at))]
    tail = [(0, 500 + count + at, [0.0, 0.0]) for at in range(shape.length + shape.lateness + 1)]
    contents = [
        {(end, window) for _, end, _, window in in_batches(each + tail, shape, [7, 20])[0]} for each in (log, shuffled)
    ]
    # The first sample decides which windows can exist before it, so a shuffled start may only lose those.
    first_end = 500 + shape.lateness + shape.hop
    later = [{entry for entry in each if entry[0] > first_end} for each in contents]
    assert later[0] == later[1]


@settings(max_examples=150, deadline=None)
@given(logs(), shapes(), st.integers(1, 8))
def test_a_batch_with_too_many_windows_says_how_much_fits_and_changes_nothing(
    log: list[Sample], shape: WindowShape, limit: int
) -> None:
    """Cut wherever it says, the log gives the same windows, never more than the limit at once."""
    rings = RingBuffers(shape, CHANNELS)
    rows = {asset: rings.row(str(asset)) for asset in range(3)}
    due: list[Due] = []
    low, high = 0, len(log)
    while low < len(log):
        part = Samples(
            np.array([rows[asset] for asset, _, _ in log[low:high]]),
            np.array([index for _, index, _ in log[low:high]]),
            np.array([values for _, _, values in log[low:high]], dtype=np.float32),
        )
        try:
            found = assign_windows(
                rings, part, idle_after_steps=IDLE, max_windows=limit if high - low > 1 else None
            ).due
        except TooMuchAtOnce as error:
            high = low + (error.fits or 0)
            continue
        assert high - low == 1 or len(found.end) <= limit
        columns = zip(found.row, found.end, found.sample, found.windows, strict=True)
        due += [(int(row), int(end), int(sample) + low, window.tobytes()) for row, end, sample, window in columns]
        low, high = high, len(log)
    assert due == one_by_one(log, shape)[0]
