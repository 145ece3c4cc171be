"""A batch of readings into the windows of a group: whose they are, what is due, what is refused. No I/O, no clock."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from agent.dead_letters.letter import ASSET_MOVED, DETAILS, LATE, TOO_MANY_ASSETS, DeadLetter, dead_letter
from agent.windows.assigner import AssignedWindows, Due, Gaps, Samples, assign_windows
from agent.windows.group import GroupWindows
from agent.windows.row_index import UNSEEN
from anchormoe.windows import Index, Mask
from connectors.decoding import Readings
from connectors.records import Batch

_STRANGER, _ONE_TOO_MANY = -1, -2


@dataclass(frozen=True, slots=True)
class ClockRegression:
    """An asset that sends nothing but late samples: its newest index and the sample's, both in steps."""

    asset: str
    newest: int
    index: int
    offset: int


@dataclass(frozen=True, slots=True)
class ExpiredAsset:
    """From this offset on the asset is one that was never seen."""

    asset: str
    offset: int


@dataclass(frozen=True, slots=True)
class Ingested:
    """What a batch did to the windows of one group: due windows and gaps, in log order.

    `offsets` are those of the samples. Whose windows and gaps they are is noted by name: by the time they are judged
    a row may belong to another asset.
    """

    windows: GroupWindows
    rows: Index
    applied: AssignedWindows
    due_assets: list[str]
    gap_assets: list[str]
    offsets: Index
    refused: list[DeadLetter]
    clocks_back: list[ClockRegression]
    forgotten: list[ExpiredAsset]

    @property
    def says_something(self) -> bool:
        due, gaps = self.applied.due, self.applied.gaps
        return bool(len(due.row) or len(gaps.row) or self.clocks_back or self.forgotten)


@dataclass(frozen=True, slots=True)
class _Arrived:
    """Readings with the offsets of their records and their places on the grid."""

    readings: Readings
    offset: Index
    index: Index

    def only(self, which: Mask | slice) -> "_Arrived":
        old = self.readings
        part = replace(
            old,
            asset=old.asset[which],
            time_ns=old.time_ns[which],
            values=old.values[which],
            record=old.record[which],
        )
        return _Arrived(part, self.offset[which], self.index[which])


def ingest(windows: GroupWindows, batch: Batch, readings: Readings, *, strangers: Collection[str] = ()) -> Ingested:
    """Apply the readings to the rings; what is late, a stranger or beyond the asset limit becomes a dead letter.

    Readings that the restored windows already hold (below their cursor) are skipped: a redelivery is not late.
    """
    offsets = _offsets(batch)[readings.record]
    arrived = _Arrived(readings, offsets, windows.watched.grid.index(readings.time_ns))
    fresh = offsets >= windows.cursor
    if not fresh.all():
        arrived = arrived.only(fresh)
    places = [0, *_split_points(windows, arrived), len(arrived.index)]
    parts = [arrived.only(slice(low, high)) for low, high in pairwise(places)] if len(places) > 2 else [arrived]
    return _merge([_ingest_piece(windows, batch, part, strangers) for part in parts])


def unseen_assets(windows: GroupWindows, readings: Readings) -> list[str]:
    """Those that have no row yet, each once, in log order."""
    unseen = _known_rows(windows, readings) == UNSEEN
    return [readings.assets[number] for number in dict.fromkeys(readings.asset[unseen].tolist())]


def _split_points(windows: GroupWindows, arrived: _Arrived) -> list[int]:
    """Where the batch must be cut, because something about an asset depends on who is gone by then. Mostly nowhere.

    1. before a sample whose own asset may be gone, 2. before one of a new asset, if there may be no room for it.
    """
    if not len(arrived.index):
        return []
    rows, attendance = _known_rows(windows, arrived.readings), windows.attendance
    begin = attendance.doubtful(rows, arrived.index)
    new = rows == UNSEEN
    if new.any() and len(windows.rings.rows) + len(np.unique(arrived.readings.asset[new])) > windows.watched.max_assets:
        end = max(attendance.clock, int(arrived.index.max()))
        begin |= new & bool(len(attendance.all_gone(clock=end)))
    return [int(at) for at in np.flatnonzero(begin) if at > 0]


def _ingest_piece(windows: GroupWindows, batch: Batch, arrived: _Arrived, strangers: Collection[str]) -> Ingested:
    readings = arrived.readings
    forgotten = (
        [ExpiredAsset(asset, int(arrived.offset[0])) for asset in windows.let_go()] if len(arrived.offset) else []
    )
    row = _rows(windows, readings, strangers)
    used = arrived.only(row >= 0) if (row < 0).any() else arrived
    if windows.lossy:
        _note_first_seen(windows, used)
    samples = Samples(row[row >= 0], used.index, used.readings.values)
    windows.attendance.follow(samples.row, samples.index)
    applied = assign_windows(windows.rings, samples, idle_after=windows.watched.idle_after)
    refused = [
        *_letters(batch, readings.record[row == _STRANGER], ASSET_MOVED),
        *_letters(batch, readings.record[row == _ONE_TOO_MANY], TOO_MANY_ASSETS),
        *_letters(batch, used.readings.record[applied.late], LATE),
    ]
    return Ingested(
        windows=windows,
        rows=samples.row,
        applied=applied,
        due_assets=[windows.rings.names[row] for row in applied.due.row.tolist()],
        gap_assets=[windows.rings.names[row] for row in applied.gaps.row.tolist()],
        offsets=used.offset,
        refused=refused,
        clocks_back=_clocks_back(windows, samples, applied, used.offset),
        forgotten=forgotten,
    )


def _known_rows(windows: GroupWindows, readings: Readings) -> Index:
    """The row of each reading; `UNSEEN` where the asset has none."""
    row = windows.known_rows.of(readings.assets, readings.asset)
    unseen = row == UNSEEN
    if not unseen.any():
        return row
    for number in dict.fromkeys(readings.asset[unseen].tolist()):
        windows.known_rows.note(number, windows.rings.rows.get(readings.assets[number], UNSEEN))
    return windows.known_rows.of(readings.assets, readings.asset)


def _rows(windows: GroupWindows, readings: Readings, strangers: Collection[str]) -> Index:
    """The row of each reading, or why it has none. Refusals are not remembered: their reasons may pass."""
    row = _known_rows(windows, readings)
    unseen = np.flatnonzero(row == UNSEEN)
    if not len(unseen):
        return row
    numbers = readings.asset[unseen].tolist()
    found = {number: _new_row(windows, readings.assets[number], strangers) for number in dict.fromkeys(numbers)}
    row[unseen] = [found[number] for number in numbers]
    return row


def _new_row(windows: GroupWindows, asset: str, strangers: Collection[str]) -> int:
    if asset in strangers:
        return _STRANGER
    return windows.rings.row(asset) if len(windows.rings.rows) < windows.watched.max_assets else _ONE_TOO_MANY


def _note_first_seen(windows: GroupWindows, used: _Arrived) -> None:
    """After lost history an asset's windows are whole from its first sample on."""
    for number, index in zip(used.readings.asset.tolist(), used.index.tolist(), strict=True):
        windows.whole_from.setdefault(used.readings.assets[number], index)


def _clocks_back(
    windows: GroupWindows, samples: Samples, applied: AssignedWindows, offsets: Index
) -> list[ClockRegression]:
    return [
        ClockRegression(
            windows.rings.names[row], int(windows.rings.newest[row]), int(samples.index[place]), int(offsets[place])
        )
        for row, place in windows.late_runs.follow(samples.row, applied.late)
    ]


def _offsets(batch: Batch) -> Index:
    """Offsets mostly follow each other; only where they do not, each record is asked."""
    first, last = batch.records[0].offset, batch.records[-1].offset
    if last - first == len(batch.records) - 1:
        return np.arange(first, last + 1)
    return np.fromiter((record.offset for record in batch.records), dtype=np.int64)


def _letters(batch: Batch, records: Index, reason: str) -> list[DeadLetter]:
    """One letter per record, however many of its samples are concerned."""
    return [
        dead_letter(batch.records[int(at)], batch.partition, reason=reason, detail=DETAILS[reason])
        for at in np.unique(records)
    ]


def _merge(parts: Sequence[Ingested]) -> Ingested:
    """The parts of one batch, in log order."""
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(len(part.rows) for part in parts[:-1])]).tolist()
    return Ingested(
        windows=parts[0].windows,
        rows=np.concatenate([part.rows for part in parts]),
        applied=AssignedWindows(
            due=_joined_due([part.applied.due for part in parts], before),
            gaps=_joined_gaps([part.applied.gaps for part in parts], before),
            late=np.concatenate([part.applied.late for part in parts]),
        ),
        due_assets=[asset for part in parts for asset in part.due_assets],
        gap_assets=[asset for part in parts for asset in part.gap_assets],
        offsets=np.concatenate([part.offsets for part in parts]),
        refused=[letter for part in parts for letter in part.refused],
        clocks_back=[each for part in parts for each in part.clocks_back],
        forgotten=[each for part in parts for each in part.forgotten],
    )


def _joined_due(parts: Sequence[Due], before: Sequence[int]) -> Due:
    return Due(
        row=np.concatenate([part.row for part in parts]),
        end=np.concatenate([part.end for part in parts]),
        sample=np.concatenate([part.sample + shift for part, shift in zip(parts, before, strict=True)]),
        windows=np.concatenate([part.windows for part in parts]),
    )


def _joined_gaps(parts: Sequence[Gaps], before: Sequence[int]) -> Gaps:
    return Gaps(
        row=np.concatenate([part.row for part in parts]),
        last=np.concatenate([part.last for part in parts]),
        back=np.concatenate([part.back for part in parts]),
        sample=np.concatenate([part.sample + shift for part, shift in zip(parts, before, strict=True)]),
    )
