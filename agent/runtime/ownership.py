"""The partitions that this agent owns, and how one is taken over: claim, stored windows, or a rebuild from the log."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

import structlog

from agent.logs import PARTITION_TAKEN
from agent.runtime.log_changes import CommitMoved, LogChange, LogFacts, LogReplaced, RecordsLost, find_replacement
from agent.windows.asset_state import AssetState
from agent.windows.commit_metadata import CommitMetadata, LogSeen, RecordMark, layout_reaches, reach_steps
from agent.windows.group import GroupWindows
from agent.windows.snapshot import layout_digest, restore_windows
from agent.windows.spec import GroupSpec
from connectors.base import Claim, LogIdentity, Source, WindowStore
from connectors.decoding.births import BirthTables
from connectors.failpoints import DURING_TAKEOVER, hit
from connectors.records import Partition, Position, RecordLike, RejectedRecord
from connectors.timestamps import NS_PER_MS

log = structlog.get_logger()

Announce = Callable[[LogChange], Awaitable[None]]
Restored = tuple[GroupWindows, dict[str, AssetState]]

_LOOK_AGAIN_S = 1.0
"""A leader that was just elected may know a lower end than its predecessor for a moment."""


@dataclass(slots=True)
class OwnedPartition:
    """A claimed partition: its windows and the assets' states per group. Belongs to the event loop.

    `position` is the next offset to read, `saved` that of the last checkpoint. What became due below `publish_from` has
    been published by an earlier owner. `states` are those after the batches whose results are published; in a
    checkpoint, that is after every record below `position`. While a record is `partial`ly ingested, nothing is stored;
    a checkpoint that was left out for it is `overdue`. `committed` is the last commit. `seen` is the log that was read
    when the partition was taken, `last_record` the newest record since then, `leader_epoch` that of its leader (None:
    unknown). A partition that is `given_up` is somebody else's: nothing of it is published or stored any more. `births`
    is what its records have defined for later ones, where a format has such; a rebuild begins no later than they do.
    """

    partition: Partition
    claim: Claim
    groups: Mapping[str, GroupWindows]
    states: Mapping[str, dict[str, AssetState]]
    publish_from: int
    position: int
    saved: int
    committed: Position | None = None
    seen: LogSeen = field(default_factory=LogSeen)
    last_record: RecordLike | None = None
    rewound_at: int = -1
    partial: bool = False
    overdue: bool = False
    states_published_s: float = -math.inf
    given_up: bool = False
    leader_epoch: int | None = None
    births: BirthTables | None = None

    @property
    def rebuilding(self) -> bool:
        """Its windows are still behind what an earlier owner has published."""
        return self.position < self.publish_from

    def commit_position(self, offset: int) -> Position:
        """What to commit when everything below `offset` is stored.

        Never below `publish_from`: while lost windows are rebuilt they are incomplete, and a later owner must not take
        them for what was due there.
        """
        at, seen = max(offset, self.publish_from), self.log_seen
        needed = min(windows.rebuild_offset for windows in self.groups.values())
        born = None if self.births is None else self.births.oldest(self.position)
        needed = needed if born is None else min(needed, born)
        layouts = layout_reaches(windows.spec for windows in self.groups.values())
        return Position(at, str(CommitMetadata(needed, at, seen.log, seen.last, layouts)))

    @property
    def log_seen(self) -> LogSeen:
        last = self.seen.last if self.last_record is None else RecordMark.of(self.last_record)
        return LogSeen(self.seen.log, last, None if self.committed is None else self.committed.offset)

    def note_log_seen(self) -> None:
        """So that a checkpoint of the windows says which log they were read from, and what it has defined."""
        seen, births = self.log_seen, None if self.births is None else self.births.stored(self.position)
        for windows in self.groups.values():
            windows.seen, windows.births = seen, births

    def advance(self, record: RecordLike) -> None:
        """The record is ingested."""
        self.position = record.offset + 1
        if not isinstance(record, RejectedRecord):  # which another version of the client might read differently
            self.last_record = record
        for windows in self.groups.values():
            windows.cursor = max(windows.cursor, self.position)


@dataclass(frozen=True, slots=True)
class _Found:
    """What was there when a partition was claimed: the commit, the stored windows per group, the log."""

    partition: Partition
    committed: Position | None
    metadata: CommitMetadata | None
    stored: Mapping[str, Restored]
    facts: LogFacts
    seen: LogSeen
    leader_epoch: int | None

    @property
    def position(self) -> int:
        """The next offset that nobody has read and published yet."""
        cursors = [windows.cursor for windows, _ in self.stored.values()]
        return max([0 if self.committed is None else self.committed.offset, *cursors])

    @property
    def moved(self) -> bool:
        """Somebody else made or moved the commit: an operator with Kafka's own tools, or a mirror's translation."""
        if self.committed is None:
            return False
        before = [windows.seen.committed for windows, _ in self.stored.values()]
        newest = max((offset for offset in before if offset is not None), default=0)
        return not self._is_ours or self.committed.offset < newest

    @property
    def _is_ours(self) -> bool:
        return self.committed is not None and self.metadata is not None and self.metadata.is_for(self.committed.offset)

    @property
    def rebuild(self) -> CommitMetadata | None:
        """Where a rebuild may begin; None when the commit does not say so."""
        return self.metadata if self._is_ours else None


def _holds(owned: OwnedPartition, asset: str) -> bool:
    return any(asset in windows.rings.rows for windows in owned.groups.values())


class Ownership:
    """The owned partitions."""

    def __init__(
        self, source: Source, store: WindowStore, specs: Collection[GroupSpec], announce: Announce | None = None
    ) -> None:
        self._source, self._store, self._specs = source, store, specs
        self._announce = announce or _announce_nothing
        self.partitions: dict[Partition, OwnedPartition] = {}
        self._twins: set[frozenset[Partition]] = set()

    async def take(self, partition: Partition, now_s: float) -> OwnedPartition:
        """1. Let the group confirm that it is ours. 2. Claim it. 3. Restore what is stored, or start where a rebuild
        must. 4. Read on from there.

        Whoever was removed from the group without noticing it would take the claim from the rightful owner otherwise.
        """
        committed = await self._source.committed(partition)
        if committed is not None:
            await self._source.commit({partition: committed})
        claim = await self._store.claim(partition)
        owned = await self._begin(claim, await self._look(claim, committed))
        self.partitions[partition] = owned
        for windows in owned.groups.values():
            windows.idle.start_tracking(range(len(windows.rings)), now_s)
        # Always: records that were fetched while this was under way have been dropped.
        self._source.seek(partition, owned.position)
        facts = {"partition": str(partition), "offset": owned.position, "epoch": claim.epoch}
        log.info("partition taken", event_code=PARTITION_TAKEN, **facts)
        return owned

    async def find_changed(self, partitions: Collection[OwnedPartition]) -> list[OwnedPartition]:
        """Those that have another topic or another leader since they were taken; unknown is no.

        A leader that was elected uncleanly lacks records that the one before had. New ones take their offsets, perhaps
        before the next one is read, so that nothing shows it but the leader's epoch.
        """
        topics = {owned.partition.topic for owned in partitions}
        known = {topic: await self._source.log_identity(topic) for topic in topics}
        return [owned for owned in partitions if _has_changed(owned, known[owned.partition.topic])]

    def drop(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self.partitions.pop(partition, None)

    def report_twin(self, asset: str, partition: Partition) -> None:
        """Warn when the asset is in another partition too, once per pair of partitions. It changes no result.

        Each partition is judged by its own records: between partitions there is no order that a replay could repeat.
        """
        for other, owned in self.partitions.items():
            pair = frozenset({partition, other})
            if pair not in self._twins and other != partition and _holds(owned, asset):
                self._twins.add(pair)
                log.warning(
                    "an asset sends to two partitions, and each has windows of its own; key records by asset",
                    asset=asset,
                    partitions=sorted(map(str, pair)),
                )

    def count_assets(self, group: str) -> int:
        """Of all partitions."""
        return sum(len(owned.groups[group].rings.rows) for owned in self.partitions.values())

    async def _look(self, claim: Claim, committed: Position | None) -> _Found:
        partition = claim.partition
        metadata = None if committed is None else CommitMetadata.parse(committed.metadata)
        stored: dict[str, Restored] = {}
        for spec in self._specs:
            restored = await self._restore(claim, spec)
            if restored is not None:
                stored[spec.name] = restored
        identity = await self._source.log_identity(partition.topic)
        log_id = identity.id
        if metadata is not None and metadata.log is not None and metadata.log == log_id:
            # Of a layout that was not in use for a while, and of the log that was there before this one.
            stored = {name: each for name, each in stored.items() if each[0].seen.log in (None, log_id)}
        seen = _newest_seen(metadata, [windows for windows, _ in stored.values()])
        facts = await self._look_at_log(partition, log_id, seen)
        epoch = identity.leader_epochs.get(partition.number)
        return _Found(partition, committed, metadata, stored, facts, seen, epoch)

    async def _look_at_log(self, partition: Partition, log_id: str | None, seen: LogSeen) -> LogFacts:
        """The end before the last record: a log that was cut grows, and must not look whole without that record."""
        first, end = await self._source.first_offset(partition), await self._source.end_offset(partition)
        last = None if seen.last is None else await self._source.read_at(partition, seen.last.offset)
        return LogFacts(first, end, log_id, last)

    async def _restore(self, claim: Claim, spec: GroupSpec) -> Restored | None:
        windows = GroupWindows.empty(spec, cursor=0)
        stored = await self._store.load(claim, layout_digest(spec))
        states = None if stored is None else restore_windows(windows, stored)
        return None if states is None else (windows, states)

    async def _begin(self, claim: Claim, found: _Found) -> OwnedPartition:
        if (replaced := await self._find_replacement(found)) is not None:
            return await self._begin_replaced(claim, found, replaced)
        if found.committed is not None and found.moved and found.rebuild is None:
            return await self._begin_moved(claim, found, found.committed)
        return await self._go_on(claim, found)

    async def _find_replacement(self, found: _Found) -> LogReplaced | None:
        # A commit that is not ours says nothing about the log, except that it must hold the offset.
        seen = LogSeen() if found.moved and found.rebuild is None else found.seen
        position = found.committed.offset if found.moved and found.committed else found.position
        facts = found.facts
        reason = find_replacement(seen, facts, position)
        if reason == "cut":
            await asyncio.sleep(_LOOK_AGAIN_S)
            # A log that was cut may have grown beyond the position meanwhile, with other records.
            facts = await self._look_at_log(found.partition, facts.id, seen)
            reason = find_replacement(seen, facts, position)
        if reason is None:
            return None
        return LogReplaced(found.partition, reason, position, facts.first, facts.end, _time_ms(found.seen))

    async def _begin_replaced(self, claim: Claim, found: _Found, replaced: LogReplaced) -> OwnedPartition:
        """Forgets everything. The commit comes at once: an old one would be an offset of another log."""
        first = replaced.first
        log.error(
            "the log was replaced; its windows are forgotten, reading begins at its first record",
            partition=str(found.partition),
            reason=replaced.reason,
            position=replaced.position,
            first=first,
            end=replaced.end,
        )
        await self._announce(replaced)
        # Where older records are gone, those of the new log cannot be complete either.
        groups = self._empty_groups(cursor=first, history_lost=first > 0)
        owned = self._owned(claim, groups, found, publish_from=first, seen=LogSeen(found.facts.id))
        await self._commit(owned)
        return owned

    async def _begin_moved(self, claim: Claim, found: _Found, committed: Position) -> OwnedPartition:
        """An operator's word: exactly there, whatever is stored."""
        asked, first = committed.offset, found.facts.first
        begin = max(asked, first)
        log.warning(
            "somebody else has set the committed offset; stored windows are dropped, reading begins there",
            partition=str(found.partition),
            committed=asked,
            stored=found.position if found.stored else None,
            offset=begin,
        )
        await self._announce(CommitMoved(found.partition, begin))
        groups = self._empty_groups(cursor=begin, history_lost=asked > first)
        return self._owned(claim, groups, found, publish_from=begin, seen=LogSeen(found.facts.id))

    async def _go_on(self, claim: Claim, found: _Found) -> OwnedPartition:
        """From the stored windows; those that are missing are rebuilt."""
        stored = {} if found.moved else found.stored
        if found.moved and found.committed is not None:
            log.warning("the committed offset was moved back", partition=str(found.partition))
            await self._announce(CommitMoved(found.partition, found.committed.offset))
        groups: dict[str, Restored] = {}
        for spec in self._specs:
            groups[spec.name] = stored.get(spec.name) or await self._rebuild(found, spec)
        hit(DURING_TAKEOVER)
        first = found.facts.first
        position = found.committed.offset if found.moved and found.committed else found.position
        for windows, _ in groups.values():
            if windows.cursor < first:
                windows.lose_history(first)
        if (found.committed is not None or stored) and position < first:
            await self._tell_lost(found, position)
        publish_from = found.committed.offset if found.committed else 0
        seen = LogSeen(found.facts.id or found.seen.log, found.seen.last)
        owned = self._owned(claim, groups, found, publish_from=publish_from, seen=seen)
        if found.committed is None:
            # So that a reader which starts at the newest record starts at the same one after a crash.
            await self._commit(owned)
        return owned

    async def _tell_lost(self, found: _Found, position: int) -> None:
        lost = RecordsLost(found.partition, position, found.facts.first, _time_ms(found.seen))
        log.error(
            "records were deleted before they were read; increase the retention or read faster",
            partition=str(found.partition),
            lost=lost.count,
            position=position,
            first=lost.first,
        )
        await self._announce(lost)

    async def _rebuild(self, found: _Found, spec: GroupSpec) -> Restored:
        """Empty windows where a rebuild has to begin; without a commit, where reading starts."""
        if found.committed is None:
            return GroupWindows.empty(spec, cursor=await self._source.start_offset(found.partition)), {}
        first = found.facts.first
        begin, complete = await self._rebuild_offset(found, found.committed, spec)
        windows = GroupWindows.empty(spec, cursor=max(begin, first))
        windows.history_lost = not complete
        log.warning(
            "no stored windows; rebuilding them from the log",
            partition=str(found.partition),
            group=spec.name,
            offset=windows.cursor,
            history_lost=windows.history_lost,
        )
        return windows, {}

    async def _rebuild_offset(self, found: _Found, committed: Position, spec: GroupSpec) -> tuple[int, bool]:
        """Where the windows of the group have to begin, and whether the log still holds all that they need."""
        metadata, first = found.rebuild, found.facts.first
        if metadata is not None and metadata.covers(spec, self._specs):
            return metadata.rebuild, metadata.rebuild >= first
        reached = await self._reach_back(found, committed, spec)
        begin = min(committed.offset, reached, committed.offset if metadata is None else metadata.rebuild)
        return begin, begin > first or first == 0

    async def _reach_back(self, found: _Found, committed: Position, spec: GroupSpec) -> int:
        """For a layout that the commit does not know: the offset as long before the commit as its windows may need."""
        partition, first = found.partition, found.facts.first
        records = [await self._source.read_at(partition, committed.offset - back) for back in (0, 1)]
        times = [record.timestamp for record in records if record is not None]
        times += [] if found.seen.last is None else [found.seen.last.timestamp_ms]
        known = [time_ms for time_ms in times if time_ms >= 0]
        if not known:
            return first
        reach_ms = reach_steps(spec) * spec.grid.period_ns // NS_PER_MS + 1
        reached = await self._source.offset_at(partition, min(known) - reach_ms)
        return first if reached is None else reached

    def _empty_groups(self, *, cursor: int, history_lost: bool) -> dict[str, Restored]:
        groups: dict[str, Restored] = {}
        for spec in self._specs:
            windows = GroupWindows.empty(spec, cursor=cursor)
            windows.history_lost = history_lost
            groups[spec.name] = (windows, {})
        return groups

    def _owned(
        self, claim: Claim, groups: Mapping[str, Restored], found: _Found, *, publish_from: int, seen: LogSeen
    ) -> OwnedPartition:
        windows = {name: restored for name, (restored, _) in groups.items()}
        position = min(each.cursor for each in windows.values())
        return OwnedPartition(
            found.partition,
            claim,
            windows,
            {name: states for name, (_, states) in groups.items()},
            publish_from=publish_from,
            position=position,
            saved=position,
            committed=found.committed,
            seen=seen,
            leader_epoch=found.leader_epoch,
        )

    async def _commit(self, owned: OwnedPartition) -> None:
        position = owned.commit_position(owned.position)
        await self._source.commit({owned.partition: position})
        owned.committed = position


def _newest_seen(metadata: CommitMetadata | None, stored: Collection[GroupWindows]) -> LogSeen:
    """What was seen last of the log: a commit follows the windows, but windows may be stored without one."""
    found = [windows.seen for windows in sorted(stored, key=lambda windows: windows.cursor)]
    found += [] if metadata is None else [LogSeen(metadata.log, metadata.last)]
    known = [seen for seen in found if seen.log is not None or seen.last is not None]
    return max(known, key=lambda seen: -1 if seen.last is None else seen.last.offset, default=LogSeen())


def _has_changed(owned: OwnedPartition, now: LogIdentity) -> bool:
    """A lower epoch is the answer of a broker that has not heard of the election yet."""
    epoch = now.leader_epochs.get(owned.partition.number)
    made_anew = owned.seen.log is not None and now.id is not None and owned.seen.log != now.id
    return made_anew or (owned.leader_epoch is not None and epoch is not None and epoch > owned.leader_epoch)


def _time_ms(seen: LogSeen) -> int:
    return time.time_ns() // NS_PER_MS if seen.last is None else seen.last.timestamp_ms


async def _announce_nothing(change: LogChange) -> None:
    """Nobody listens."""
