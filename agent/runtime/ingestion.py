"""From a polled batch to due windows: in log order, cut at control records, decoded, ingested. On the event loop."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import structlog

from agent.dead_letters.letter import DeadLetter, dead_letter
from agent.health.progress import Progress
from agent.runtime.control_records import Reset, split_at_resets
from agent.runtime.instruments import Instruments
from agent.runtime.ownership import OwnedPartition, Ownership
from agent.windows.ingest import Ingested, ingest, reset_asset
from connectors.base import Source
from connectors.decoding import Decoded, Decoder, Readings
from connectors.records import Batch

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class IngestedBatch:
    """Records of one partition after ingestion: what they did per group, and the unusable ones in log order."""

    owned: OwnedPartition
    records: int
    parts: list[Ingested]
    dead_letters: list[DeadLetter] = field(default_factory=list)

    @property
    def windows(self) -> int:
        return sum(len(part.due) for part in self.parts)


class Ingestion:
    def __init__(
        self,
        source: Source,
        decoder: Decoder,
        ownership: Ownership,
        *,
        instruments: Instruments,
        progress: Progress,
        clock: Callable[[], float],
    ) -> None:
        self._source, self._decoder, self._ownership = source, decoder, ownership
        self._counters, self._status = instruments.counters, instruments.status
        self._progress, self._clock = progress, clock

    def ingest(self, owned: OwnedPartition, batch: Batch) -> Iterator[IngestedBatch]:
        """Nothing twice and nothing skipped: a gap in the offsets is read again once, then it is accepted."""
        first = batch.records[0].offset
        if first > owned.position and owned.rewound_at != owned.position:
            owned.rewound_at = owned.position
            self._source.seek(owned.partition, owned.position)
            return
        if first < owned.position:
            batch = Batch(batch.partition, [each for each in batch.records if each.offset >= owned.position])
        for piece in split_at_resets(batch, accept=self._decoder.accepts_resets):
            yield self._reset(owned, piece) if isinstance(piece, Reset) else self._ingest(owned, piece)

    def _reset(self, owned: OwnedPartition, reset: Reset) -> IngestedBatch:
        self._counters.records += 1
        partition = owned.partition
        parts = [
            reset_asset(windows, reset.asset, partition=partition, offset=reset.offset)
            for windows in owned.groups.values()
        ]
        if any(part.cleared for part in parts):
            log.info("window reset", asset=reset.asset, partition=str(partition), offset=reset.offset)
        owned.advance(reset.offset)
        return IngestedBatch(owned, 1, parts)

    def _ingest(self, owned: OwnedPartition, batch: Batch) -> IngestedBatch:
        with self._status.stage("decode"):
            decoded = self._decoder.decode(batch)
        letters = [
            dead_letter(
                batch.records[bad.record],
                batch.partition,
                reason=bad.reason,
                detail=bad.detail,
                field=bad.field,
                exception=bad.exception,
            )
            for bad in decoded.rejected
        ]
        with self._status.stage("ingest"):
            parts = [self._ingest_group(owned, batch, readings) for readings in decoded.readings]
        letters += [letter for part in parts for letter in part.dead_letters]
        letters.sort(key=lambda letter: letter.offset)  # in log order, whatever the reasons
        owned.advance(batch.records[-1].offset)
        ingested = IngestedBatch(owned, len(batch.records), parts, letters)
        self._report(ingested, decoded)
        return ingested

    def _ingest_group(self, owned: OwnedPartition, batch: Batch, readings: Readings) -> Ingested:
        windows = owned.groups[readings.group]
        owns = partial(self._ownership.owns_asset, partition=batch.partition)
        ingested = ingest(windows, batch, readings, owns=owns, now_s=self._clock())
        for expired in ingested.cleared:
            if expired.asset not in windows.rings.rows:
                self._ownership.release_asset(expired.asset)
        return ingested

    def _report(self, ingested: IngestedBatch, decoded: Decoded) -> None:
        self._progress.advanced()
        counters, due = self._counters, ingested.windows
        counters.records += ingested.records
        counters.windows += due
        counters.expired_assets += sum(len(part.cleared) for part in ingested.parts)
        if decoded.ignored:
            counters.ignored["unknown_asset"] += decoded.ignored
        if decoded.ignored_channels:
            counters.ignored["unknown_channel"] += decoded.ignored_channels
        newest_ns = max((int(each.time_ns.max()) for each in decoded.readings if len(each.time_ns)), default=None)
        owned = ingested.owned
        self._status.ingested(
            owned.partition, records=ingested.records, due=due, position=owned.position, newest_ns=newest_ns
        )
