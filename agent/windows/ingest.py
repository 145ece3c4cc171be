"""Ingests a batch of readings into the windows of a group: due windows, gaps, dead letters. No I/O, no clock.

What comes out shares no memory with the windows: it may go to another thread while the next batch is ingested.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from agent.dead_letters.letter import DETAILS, LATE, TOO_MANY_ASSETS, DeadLetter, dead_letter
from agent.windows.assigner import AssignedWindows, Samples, assign_windows
from agent.windows.group import GroupWindows
from agent.windows.row_index import UNSEEN
from agent.windows.too_much import TooMuchAtOnce
from anchormoe.windows import Floats, Index, Mask
from connectors.decoding import Readings
from connectors.records import Batch, Partition

_UNLIMITED = 1 << 62
_OVER_LIMIT = -2
"""Instead of a row: there is no room for the asset."""


@dataclass(frozen=True, slots=True)
class DueWindow:
    """The window that ends before index `end`, made due by the record at `offset`.

    `values` is (C, T), NaN is missing. A window that is not `complete` reaches into history that was lost.
    """

    asset: str
    end: int
    offset: int
    values: Floats
    complete: bool


@dataclass(frozen=True, slots=True)
class DataGap:
    """The asset has no sample in (last, back), two indices; the record at `offset` brought its data back."""

    asset: str
    last: int
    back: int
    offset: int


@dataclass(frozen=True, slots=True)
class ClockRegression:
    """An asset that sends nothing but late samples: its newest index and the index of the last late one."""

    asset: str
    newest: int
    index: int
    offset: int


@dataclass(frozen=True, slots=True)
class ClearedAsset:
    """From this offset on the asset counts as never seen, because it expired or was reset."""

    asset: str
    offset: int


@dataclass(frozen=True, slots=True)
class Ingested:
    """What a batch, or a reset, did to the windows of one group; each list in log order.

    Assets are given by name: by the time the windows are classified a row may belong to another asset.
    """

    group: str
    partition: Partition
    due: list[DueWindow] = field(default_factory=list)
    gaps: list[DataGap] = field(default_factory=list)
    clock_regressions: list[ClockRegression] = field(default_factory=list)
    cleared: list[ClearedAsset] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)

    @property
    def affects_events(self) -> bool:
        """False when nothing follows from it, neither now nor for a later window."""
        return bool(self.due or self.gaps or self.clock_regressions or self.cleared)


def ingest(
    windows: GroupWindows,
    batch: Batch,
    readings: Readings,
    *,
    now_s: float,
    on_new: Callable[[str], object] = lambda asset: None,
    room: Callable[[], int] = lambda: _UNLIMITED,
    max_windows: int | None = None,
) -> Ingested:
    """Apply a batch. Samples that are late or of too many assets become dead letters.

    `on_new` is told of each new asset; `room` says how many more assets all partitions together may have. `now_s` is
    when the batch arrived (monotonic clock). Raises `TooMuchAtOnce` when more than `max_windows` windows may become
    due; the windows are half changed then, see `all_or_nothing`.

    1. Skip readings below the cursor: restored windows have them already, and a redelivery is not late.
    2. Forget the assets that have expired, then look up the row of each reading.
    3. Apply the readings up to the record before which an asset may have expired on the way; repeat from step 2.
    """
    result = Ingested(readings.group, batch.partition)
    arrived = _Arrived.of(windows, batch, readings)
    low = skipped = int(np.searchsorted(arrived.offset, windows.cursor))
    while low < len(arrived.index):
        _expire(windows, arrived.offset[low], result)
        rest = arrived.only(slice(low, None)) if low else arrived
        rows = windows.find_rows(readings.assets, rest.asset)
        high = low + _decided(windows, rest, rows, room)
        part = arrived.only(slice(low, high)) if high < len(arrived.index) else rest
        left = None if max_windows is None else max_windows - len(result.due)
        try:
            _apply(windows, batch, part, _place(windows, part, rows[: high - low], on_new, room), now_s, left, result)
        except TooMuchAtOnce as error:
            raise TooMuchAtOnce(None if error.fits is None else max(low + error.fits, skipped + 1)) from error
        low = high
    return result


def reset_asset(windows: GroupWindows, asset: str, *, partition: Partition, offset: int) -> Ingested:
    """Forget an asset's samples and its state, as the control record at `offset` asks for."""
    result = Ingested(windows.spec.name, partition)
    if offset >= windows.cursor and windows.clear_samples(asset):
        result.cleared.append(ClearedAsset(asset, offset))
    return result


@dataclass(frozen=True, slots=True)
class _Arrived:
    """Readings as columns: asset number, record in the batch, its offset, index on the grid, values."""

    names: list[str]
    asset: Index
    record: Index
    offset: Index
    index: Index
    values: Floats

    @classmethod
    def of(cls, windows: GroupWindows, batch: Batch, readings: Readings) -> "_Arrived":
        offset = _offsets(batch)[readings.record]
        index = windows.spec.grid.index(readings.time_ns)
        return cls(readings.assets, readings.asset, readings.record, offset, index, readings.values)

    def only(self, which: Mask | slice) -> "_Arrived":
        asset, record, offset, index = (each[which] for each in (self.asset, self.record, self.offset, self.index))
        return _Arrived(self.names, asset, record, offset, index, self.values[which])


def _expire(windows: GroupWindows, offset: np.int64, result: Ingested) -> bool:
    expired = windows.expire_assets()
    result.cleared.extend(ClearedAsset(asset, int(offset)) for asset in expired)
    return bool(expired)


def _decided(windows: GroupWindows, arrived: _Arrived, rows: Index, room: Callable[[], int]) -> int:
    """How many samples can be applied before the outcome depends on which assets have expired by then. Mostly all.

    The next one is the first of a record: within a record neither its own asset expires nor does room appear for it.
    """
    new = rows == UNSEEN
    if new.any():
        new &= len(np.unique(arrived.asset[new])) > min(windows.spec.max_assets - len(windows.rings.rows), room())
    undecided = windows.expiry.undecided(rows, arrived.index, new=new)
    if not undecided.any():
        return len(rows)
    undecided[1:] &= arrived.offset[1:] != arrived.offset[:-1]
    return int(np.argmax(undecided)) or len(rows)


def _place(
    windows: GroupWindows, arrived: _Arrived, rows: Index, on_new: Callable[[str], object], room: Callable[[], int]
) -> Index:
    """The rows with those of new assets filled in, or why they get none. A refusal is not kept: its reason may pass."""
    unseen = np.flatnonzero(rows == UNSEEN)
    if not len(unseen):
        return rows
    assets = arrived.asset[unseen].tolist()
    placed = {asset: _new_row(windows, arrived.names[asset], on_new, room) for asset in dict.fromkeys(assets)}
    rows = rows.copy()
    rows[unseen] = [placed[asset] for asset in assets]
    return rows


def _new_row(windows: GroupWindows, asset: str, on_new: Callable[[str], object], room: Callable[[], int]) -> int:
    known = windows.rings.rows
    if asset in known:  # since an earlier part of the batch
        return known[asset]
    if len(known) >= windows.spec.max_assets or room() <= 0:
        return _OVER_LIMIT
    on_new(asset)
    return windows.rings.row(asset)


def _apply(
    windows: GroupWindows,
    batch: Batch,
    arrived: _Arrived,
    rows: Index,
    now_s: float,
    max_windows: int | None,
    result: Ingested,
) -> None:
    usable = rows >= 0
    used, row = (arrived, rows) if usable.all() else (arrived.only(usable), rows[usable])
    if windows.history_lost:
        for asset, index in zip(used.asset.tolist(), used.index.tolist(), strict=True):
            windows.complete_from.setdefault(used.names[asset], index)
    windows.expiry.record(row, used.index, used.offset)
    windows.idle.record(row, now_s)
    samples = Samples(row, used.index, used.values)
    idle_after_steps = windows.spec.idle_after_steps
    try:
        assigned = assign_windows(windows.rings, samples, idle_after_steps=idle_after_steps, max_windows=max_windows)
    except TooMuchAtOnce as error:
        place = [*np.flatnonzero(usable).tolist(), len(usable)]
        raise TooMuchAtOnce(None if error.fits is None else place[error.fits]) from error
    result.dead_letters.extend(_letters(batch, arrived.record[rows == _OVER_LIMIT], TOO_MANY_ASSETS))
    result.dead_letters.extend(_letters(batch, used.record[assigned.late], LATE))
    result.due.extend(_due_windows(windows, assigned, used.offset))
    result.gaps.extend(_data_gaps(windows, assigned, used.offset))
    result.clock_regressions.extend(_clock_regressions(windows, samples, assigned, used.offset))


def _due_windows(windows: GroupWindows, assigned: AssignedWindows, offset: Index) -> Iterator[DueWindow]:
    due, names, any_lost = assigned.due, windows.rings.names, bool(windows.complete_from)
    columns = zip(due.row.tolist(), due.end.tolist(), offset[due.sample].tolist(), due.windows, strict=True)
    for row, end, at, values in columns:
        complete = not any_lost or windows.is_complete(names[row], end)
        yield DueWindow(names[row], end, at, values, complete)


def _data_gaps(windows: GroupWindows, assigned: AssignedWindows, offset: Index) -> Iterator[DataGap]:
    gaps, names = assigned.gaps, windows.rings.names
    columns = zip(gaps.row.tolist(), gaps.last.tolist(), gaps.back.tolist(), offset[gaps.sample].tolist(), strict=True)
    for row, last, back, at in columns:
        yield DataGap(names[row], last, back, at)


def _clock_regressions(
    windows: GroupWindows, samples: Samples, assigned: AssignedWindows, offset: Index
) -> Iterator[ClockRegression]:
    rings = windows.rings
    for row, at in windows.late_runs.record(samples.row, assigned.late):
        yield ClockRegression(rings.names[row], int(rings.newest[row]), int(samples.index[at]), int(offset[at]))


def _offsets(batch: Batch) -> Index:
    """Mostly consecutive; only where they are not, each record is asked."""
    first, last = batch.records[0].offset, batch.records[-1].offset
    if last - first == len(batch.records) - 1:
        return np.arange(first, last + 1)
    return np.fromiter((record.offset for record in batch.records), dtype=np.int64)


def _letters(batch: Batch, records: Index, reason: str) -> Iterable[DeadLetter]:
    """One per record, however many of its samples are affected."""
    return [
        dead_letter(batch.records[int(at)], batch.partition, reason=reason, detail=DETAILS[reason])
        for at in np.unique(records)
    ]
