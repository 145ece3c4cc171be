"""From a polled batch to due windows: in log order, cut at control records, decoded, ingested. On the event loop.

Nothing that a record holds stops its partition: where a batch raises, it is undone and tried again in halves, until the
culprit is alone and becomes a dead letter. A batch with too many windows is cut the same way.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import structlog

from agent.dead_letters.letter import DeadLetter, dead_letter
from agent.events.fault import Fault, Stage
from agent.health.progress import Progress
from agent.runtime.control_records import Reset, split_at_resets
from agent.runtime.instruments import Instruments
from agent.runtime.last_door import LastDoor
from agent.runtime.partitions.owned import OwnedPartition
from agent.runtime.partitions.ownership import Ownership
from agent.runtime.skipped_records import SKIPPED, SkippedRecord, SkippedRecords
from agent.windows.group import all_or_nothing
from agent.windows.ingest import Ingested, ingest, reset_asset
from agent.windows.spec import GroupSpec
from agent.windows.too_much import TooMuchAtOnce
from connectors.base import Source
from connectors.decoding import Decoder, Readings, Rejected
from connectors.failpoints import IN_DECODING, IN_WINDOWING, raise_armed
from connectors.records import Batch, RecordLike

log = structlog.get_logger()

_UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True)
class IngestedBatch:
    """Records of one partition after ingestion: what they did per group, and the unusable ones in log order.

    `records` counts those that are ingested to their end: a long record comes in several pieces.
    """

    owned: OwnedPartition
    batch: Batch
    records: int
    parts: list[Ingested]
    dead_letters: list[DeadLetter] = field(default_factory=list)

    @property
    def windows(self) -> int:
        return sum(len(part.due) for part in self.parts)

    def holds(self, offset: int) -> bool:
        return self.batch.records[0].offset <= offset <= self.batch.records[-1].offset

    def record_at(self, offset: int) -> RecordLike:
        return next(record for record in self.batch.records if record.offset == offset)


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive decoded records."""

    batch: Batch
    readings: Sequence[Readings]
    rejected: Sequence[Rejected]

    def __len__(self) -> int:
        return len(self.batch.records)

    def between(self, low: int, high: int) -> "_Run":
        readings = [_only_records(each, low, high) for each in self.readings]
        return _Run(
            Batch(self.batch.partition, self.batch.records[low:high]),
            [each for each in readings if len(each.record)],
            [replace(each, record=each.record - low) for each in self.rejected if low <= each.record < high],
        )


class Ingestion:
    """`max_windows` is how many may become due at once; a single sample may exceed it."""

    def __init__(
        self,
        source: Source,
        decoder: Decoder,
        ownership: Ownership,
        *,
        instruments: Instruments,
        progress: Progress,
        clock: Callable[[], float],
        door: LastDoor | None = None,
        max_windows: int | None = None,
        skips: SkippedRecords | None = None,
    ) -> None:
        self._skips = skips or SkippedRecords()
        self._source, self._decoder, self._ownership = source, decoder, ownership
        self._counters, self._status = instruments.counters, instruments.status
        self._progress, self._clock = progress, clock
        self._door, self._max_windows = door or LastDoor(self._counters), max_windows

    def ingest(self, owned: OwnedPartition, batch: Batch) -> Iterator[IngestedBatch]:
        """Nothing twice and nothing skipped: a gap in the offsets is read again once, then it is accepted.

        A gap is never a loss: reading an offset that was deleted fails. What remains are transaction markers, aborted
        transactions and records that compaction removed.
        """
        first = batch.records[0].offset
        if first > owned.position and owned.rewound_at != owned.position:
            owned.rewound_at = owned.position
            self._source.seek(owned.partition, owned.position)
            return
        if first < owned.position:
            fresh = [each for each in batch.records if each.offset >= owned.position]
            self._counters.refetched_records += len(batch.records) - len(fresh)
            batch = Batch(batch.partition, fresh)
        for part in self._skips.split(batch):
            if isinstance(part, SkippedRecord):
                yield self._skip(owned, part)
                continue
            for piece in self._split(part):
                yield from self._reset(owned, part, piece) if isinstance(piece, Reset) else self._ingest(owned, piece)

    def _skip(self, owned: OwnedPartition, skipped: SkippedRecord) -> IngestedBatch:
        self._counters.records += 1
        record, skip = skipped.record, skipped.skip
        log.warning("record skipped", place=f"{owned.partition}@{record.offset}", reason=skip.reason, by=skip.by)
        owned.advance(record)
        letter = dead_letter(record, owned.partition, reason=SKIPPED, detail=skip.detail)
        return IngestedBatch(owned, Batch(owned.partition, [record]), 1, [], [letter])

    def _split(self, batch: Batch) -> Iterator[Batch | Reset]:
        """Cut at the control records; what cannot even be looked at is left to the decoder."""
        try:
            pieces: list[Batch | Reset] = list(split_at_resets(batch, accept=self._decoder.accepts_resets))
        except Exception as error:  # noqa: BLE001
            self._door.note(Fault("decode", error), str(batch.partition))
            pieces = [batch]
        yield from pieces

    def _reset(self, owned: OwnedPartition, batch: Batch, reset: Reset) -> Iterator[IngestedBatch]:
        partition, groups = owned.partition, owned.groups.values()
        alone = Batch(partition, [record for record in batch.records if record.offset == reset.offset])
        try:
            with all_or_nothing(groups, limited=False):
                parts = [
                    reset_asset(windows, reset.asset, partition=partition, offset=reset.offset) for windows in groups
                ]
        except Exception as error:  # noqa: BLE001
            yield self._refuse(owned, alone, "ingest", error)
            return
        if any(part.cleared for part in parts):
            log.info("window reset", asset=reset.asset, partition=str(partition), offset=reset.offset)
        self._counters.records += 1
        owned.advance(alone.records[-1])
        yield IngestedBatch(owned, alone, 1, parts)

    def _ingest(self, owned: OwnedPartition, batch: Batch) -> Iterator[IngestedBatch]:
        """Decode it, in halves where that raises."""
        waiting = [batch]
        while waiting:
            batch = waiting.pop()
            try:
                run = self._decode(owned, batch)
            except Exception as error:  # noqa: BLE001
                if len(batch.records) == 1:
                    yield self._refuse(owned, batch, "decode", error)
                else:
                    waiting += _halves(batch)
            else:
                yield from self._ingest_run(owned, run)

    def _decode(self, owned: OwnedPartition, batch: Batch) -> _Run:
        with self._status.stage("decode"):
            raise_armed(IN_DECODING, together=len(batch.records))
            if owned.births is None:
                owned.births = self._decoder.make_births(windows.births for windows in owned.groups.values())
            decoded = self._decoder.decode(batch, owned.births)
        if decoded.ignored:
            self._counters.ignored["unknown_asset"] += decoded.ignored
        if decoded.ignored_channels:
            self._counters.ignored["unknown_channel"] += decoded.ignored_channels
        self._counters.sequence_gaps += decoded.sequence_gaps
        return _Run(batch, decoded.readings, decoded.rejected)

    def _ingest_run(self, owned: OwnedPartition, run: _Run) -> Iterator[IngestedBatch]:
        """As a whole, or in parts where it raises or has too many windows. A part that raised has changed nothing."""
        waiting = [run]
        while waiting:
            run = waiting.pop()
            try:
                ingested = self._ingest_at_once(owned, run)
            except TooMuchAtOnce as error:
                if len(run) == 1:
                    yield from self._ingest_long(owned, run)
                else:
                    fits = error.fits if error.fits is not None else len(run) // 2
                    cut = min(max(fits, 1), len(run) - 1)
                    waiting += [run.between(cut, len(run)), run.between(0, cut)]
            except Exception as error:  # noqa: BLE001
                if len(run) == 1:
                    yield self._refuse(owned, run.batch, "ingest", error)
                else:
                    half = len(run) // 2
                    waiting += [run.between(half, len(run)), run.between(0, half)]
            else:
                self._door.records.passed(ingested.records)
                yield ingested

    def _ingest_at_once(self, owned: OwnedPartition, run: _Run) -> IngestedBatch:
        """Raises `TooMuchAtOnce` with the number of records that fit."""
        letters = [_rejection(run.batch, bad) for bad in run.rejected]
        parts: list[Ingested] = []
        with self._status.stage("ingest"), self._undoable(owned, run.readings):
            for readings in run.readings:
                left = None if self._max_windows is None else self._max_windows - sum(len(part.due) for part in parts)
                try:
                    parts.append(self._ingest_group(owned, run.batch, readings, left))
                except TooMuchAtOnce as error:
                    raise TooMuchAtOnce(_records_that_fit(readings, error.fits)) from error
            raise_armed(IN_WINDOWING, together=len(run))
            letters += [letter for part in parts for letter in part.dead_letters]
            letters.sort(key=lambda letter: letter.offset)  # in log order, whatever the reasons
        ingested = IngestedBatch(owned, run.batch, len(run), parts, letters)
        self._done(ingested, run.readings)
        return ingested

    def _ingest_long(self, owned: OwnedPartition, run: _Run) -> Iterator[IngestedBatch]:
        """One record with too many windows, piece by piece; only with the last one the position moves.

        In between nothing of the partition is stored, so that a crash repeats the whole record. A piece that raises
        ends the record: what its earlier pieces did stays.
        """
        [readings] = run.readings
        low, high, windows = 0, len(readings.time_ns), 0
        told: set[str] = set()
        while low < len(readings.time_ns):
            piece, single = _only_samples(readings, low, high), high - low == 1
            try:
                with self._status.stage("ingest"), self._undoable(owned, [piece], limited=not single):
                    part = self._ingest_group(owned, run.batch, piece, None if single else self._max_windows)
            except TooMuchAtOnce as error:
                high = low + min(max(error.fits or (high - low) // 2, 1), high - low - 1)
                continue
            except Exception as error:  # noqa: BLE001
                yield self._refuse(owned, run.batch, "ingest", error)
                return
            letters = [letter for letter in part.dead_letters if letter.reason not in told]
            told |= {letter.reason for letter in letters}
            last, windows = high == len(readings.time_ns), windows + len(part.due)
            owned.partial = not last
            ingested = IngestedBatch(owned, run.batch, int(last), [part], letters)
            if last:
                self._status.record_windows_max.observe(windows, self._status.clock())
                self._done(ingested, run.readings)
                self._door.records.passed(1)
            else:
                self._applied(ingested)
            yield ingested
            low, high = high, len(readings.time_ns)

    def _refuse(self, owned: OwnedPartition, batch: Batch, stage: Stage, error: Exception) -> IngestedBatch:
        """Raises `BreakerTripped`."""
        [record] = batch.records
        letter = self._door.refuse(record, batch.partition, Fault(stage, error, record.offset))
        ingested = IngestedBatch(owned, batch, 1, [], [letter])
        self._done(ingested, [])
        return ingested

    def _undoable(
        self, owned: OwnedPartition, readings: Sequence[Readings], *, limited: bool = True
    ) -> AbstractContextManager[None]:
        """What raises inside does not change the windows."""
        return all_or_nothing([owned.groups[each.group] for each in readings], limited=limited)

    def _ingest_group(
        self, owned: OwnedPartition, batch: Batch, readings: Readings, max_windows: int | None
    ) -> Ingested:
        windows = owned.groups[readings.group]
        room, now_s = partial(self._room, windows.spec), self._clock()
        on_new = partial(self._ownership.report_twin, partition=owned.partition)
        return ingest(windows, batch, readings, now_s=now_s, on_new=on_new, room=room, max_windows=max_windows)

    def _room(self, spec: GroupSpec) -> int:
        """For how many more assets, over all partitions: a limit for each would be as many limits."""
        return _UNLIMITED if spec.total_assets is None else spec.total_assets - self._ownership.count_assets(spec.name)

    def _done(self, ingested: IngestedBatch, readings: Sequence[Readings]) -> None:
        """The records are ingested to their end: move the position, and report."""
        owned = ingested.owned
        owned.advance(ingested.batch.records[-1])
        owned.partial = False
        self._counters.records += ingested.records
        newest_ns = max((int(each.time_ns.max()) for each in readings if len(each.time_ns)), default=None)
        self._status.ingested(
            owned.partition,
            records=ingested.records,
            due=ingested.windows,
            position=owned.position,
            newest_ns=newest_ns,
        )
        self._applied(ingested)

    def _applied(self, ingested: IngestedBatch) -> None:
        self._progress.advanced()
        self._counters.windows += ingested.windows
        for part in ingested.parts:
            self._counters.expired_assets += len(part.cleared)
            if part.due:
                most = max(Counter(one.offset for one in part.due).values())
                self._status.record_windows_max.observe(most, self._status.clock())


def _rejection(batch: Batch, bad: Rejected) -> DeadLetter:
    return dead_letter(
        batch.records[bad.record],
        batch.partition,
        reason=bad.reason,
        detail=bad.detail,
        field=bad.field,
        exception=bad.exception,
    )


def _halves(batch: Batch) -> list[Batch]:
    """The second one first, as they are taken from the end of a list."""
    half = len(batch.records) // 2
    return [Batch(batch.partition, batch.records[half:]), Batch(batch.partition, batch.records[:half])]


def _only_records(readings: Readings, low: int, high: int) -> Readings:
    first, last = np.searchsorted(readings.record, [low, high]).tolist()
    part = _only_samples(readings, first, last)
    return replace(part, record=part.record - low)


def _only_samples(readings: Readings, low: int, high: int) -> Readings:
    some = slice(low, high)
    asset, time_ns, values, record = readings.asset, readings.time_ns, readings.values, readings.record
    return replace(readings, asset=asset[some], time_ns=time_ns[some], values=values[some], record=record[some])


def _records_that_fit(readings: Readings, samples: int | None) -> int | None:
    if samples is None or samples >= len(readings.record):
        return None
    return int(readings.record[samples])
