"""The partitions that this agent owns, and how one is taken over: claim, stored windows, or a rebuild from the log."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import structlog

from agent.logs import PARTITION_TAKEN
from agent.windows.asset_state import AssetState
from agent.windows.group import GroupWindows
from agent.windows.rebuild_offset import parse_rebuild_offset, rebuild_metadata
from agent.windows.snapshot import layout_digest, restore_windows
from agent.windows.spec import GroupSpec
from connectors.base import Claim, Source, WindowStore
from connectors.failpoints import DURING_TAKEOVER, hit
from connectors.records import Partition, Position

log = structlog.get_logger()


@dataclass(slots=True)
class OwnedPartition:
    """A claimed partition: its windows and the assets' states per group. Belongs to the event loop.

    `position` is the next offset to read, `saved` that of the last checkpoint. What became due below `publish_from` has
    been published by an earlier owner. `states` are those after the batches whose results are published; in a
    checkpoint, that is after every record below `position`. While a record is `partial`ly ingested, nothing is stored.
    """

    partition: Partition
    claim: Claim
    groups: Mapping[str, GroupWindows]
    states: Mapping[str, dict[str, AssetState]]
    publish_from: int
    position: int
    saved: int
    rewound_at: int = -1
    partial: bool = False
    states_published_s: float = -math.inf

    @property
    def rebuilding(self) -> bool:
        """Its windows are still behind what an earlier owner has published."""
        return self.position < self.publish_from

    def commit_position(self, offset: int) -> Position:
        """What to commit when everything below `offset` is stored.

        Never below `publish_from`: while lost windows are rebuilt they are incomplete, and a later owner must not take
        them for what was due there.
        """
        needed = min(windows.rebuild_offset for windows in self.groups.values())
        return Position(max(offset, self.publish_from), rebuild_metadata(needed))

    def advance(self, offset: int) -> None:
        """The record at `offset` is ingested."""
        self.position = offset + 1
        for windows in self.groups.values():
            windows.cursor = max(windows.cursor, self.position)


class Ownership:
    """The owned partitions, and the partition to which each asset belongs."""

    def __init__(self, source: Source, store: WindowStore, specs: Collection[GroupSpec]) -> None:
        self._source, self._store, self._specs = source, store, specs
        self.partitions: dict[Partition, OwnedPartition] = {}
        self._home: dict[str, Partition] = {}

    async def take(self, partition: Partition, now_s: float) -> OwnedPartition:
        """1. Claim it. 2. Restore what is stored, or start where a rebuild must. 3. Read on from there."""
        claim = await self._store.claim(partition)
        committed = await self._source.committed(partition)
        first = await self._source.first_offset(partition)
        found = {spec.name: await self._restore(claim, spec, committed, first) for spec in self._specs}
        hit(DURING_TAKEOVER)
        groups = {name: windows for name, (windows, _) in found.items()}
        states = {name: known for name, (_, known) in found.items()}
        position = min(windows.cursor for windows in groups.values())
        if committed is None:
            # So that a reader which starts at the newest record starts at the same one after a crash.
            await self._source.commit({partition: Position(position, rebuild_metadata(position))})
        owned = OwnedPartition(
            partition,
            claim,
            groups,
            states,
            publish_from=committed.offset if committed else 0,
            position=position,
            saved=position,
        )
        self.partitions[partition] = owned
        for windows in groups.values():
            self._home.update(dict.fromkeys(windows.rings.rows, partition))
            windows.idle.start_tracking(range(len(windows.rings)), now_s)
        # Always: records that were fetched while this was under way have been dropped.
        self._source.seek(partition, position)
        facts = {"partition": str(partition), "offset": position, "epoch": claim.epoch}
        log.info("partition taken", event_code=PARTITION_TAKEN, **facts)
        return owned

    def drop(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self.partitions.pop(partition, None)
        self._home = {asset: home for asset, home in self._home.items() if home in self.partitions}

    def owns_asset(self, asset: str, partition: Partition) -> bool:
        """An asset belongs to the partition that asks first; its records in other partitions must not be used."""
        return self._home.setdefault(asset, partition) == partition

    def has_home(self, asset: str) -> bool:
        return asset in self._home

    def count_assets(self, group: str) -> int:
        """Of all partitions."""
        return sum(len(owned.groups[group].rings.rows) for owned in self.partitions.values())

    def release_asset(self, asset: str) -> None:
        """It may come back in any partition."""
        self._home.pop(asset, None)

    async def _restore(
        self, claim: Claim, spec: GroupSpec, committed: Position | None, first: int
    ) -> tuple[GroupWindows, dict[str, AssetState]]:
        windows = GroupWindows.empty(spec, cursor=0)
        stored = await self._store.load(claim, layout_digest(spec))
        states = None if stored is None else restore_windows(windows, stored)
        if states is not None and windows.cursor >= first:
            return windows, states
        if committed is None:
            return GroupWindows.empty(spec, cursor=await self._source.start_offset(claim.partition)), {}
        needed = parse_rebuild_offset(committed.metadata)
        windows = GroupWindows.empty(spec, cursor=committed.offset if needed is None else max(needed, first))
        windows.history_lost = needed is None or needed < first
        log.warning(
            "no stored windows; rebuilding them from the log",
            partition=str(claim.partition),
            group=spec.name,
            offset=windows.cursor,
            history_lost=windows.history_lost,
        )
        return windows, {}
