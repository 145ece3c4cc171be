"""Claims a partition and finds where it begins: at the stored windows, a rebuild, or the start of a replaced log."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

import structlog

from agent.runtime.partitions.log_changes import (
    CommitMoved,
    LogChange,
    LogFacts,
    LogReplaced,
    RecordsLost,
    find_replacement,
)
from agent.runtime.partitions.owned import OwnedPartition
from agent.windows.asset_state import AssetState
from agent.windows.commit_metadata import CommitMetadata, LogSeen, reach_steps
from agent.windows.group import GroupWindows
from agent.windows.snapshot import layout_digest, restore_windows
from agent.windows.spec import GroupSpec
from connectors.base import Claim, Source, WindowStore
from connectors.failpoints import DURING_TAKEOVER, hit
from connectors.records import Partition, Position
from connectors.timestamps import NS_PER_MS

log = structlog.get_logger()

Announce = Callable[[LogChange], Awaitable[None]]
Restored = tuple[GroupWindows, dict[str, AssetState]]

_LOOK_AGAIN_S = 1.0
"""A leader that was just elected may know a lower end than its predecessor for a moment."""


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


class PartitionRestorer:
    """Holds no state of its own, so that several partitions may be claimed at a time."""

    def __init__(self, source: Source, store: WindowStore, specs: Collection[GroupSpec], announce: Announce) -> None:
        self._source, self._store, self._specs, self._announce = source, store, specs, announce

    async def claim(self, partition: Partition) -> OwnedPartition:
        """1. Let the group confirm that it is ours. 2. Claim it. 3. Restore what is stored, or begin where it must.

        Whoever was removed from the group without noticing it would take the claim from the rightful owner otherwise.
        """
        committed = await self._source.committed(partition)
        if committed is not None:
            await self._source.commit({partition: committed})
        claim = await self._store.claim(partition)
        return await self._begin(claim, await self._look(claim, committed))

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


def _time_ms(seen: LogSeen) -> int:
    return time.time_ns() // NS_PER_MS if seen.last is None else seen.last.timestamp_ms
