"""Which partitions are ours, and how one is taken over: claim, stored windows, rebuild from the log."""

from collections.abc import Collection, Mapping

import structlog

from agent.events.group import Watched
from agent.logs import PARTITION_TAKEN
from agent.windows.group import GroupWindows, OwnedPartition, parse_rebuild_offset, restore_windows
from connectors.base import Claim, Source, WindowStore
from connectors.failpoints import DURING_TAKEOVER, hit
from connectors.records import Partition, Position

log = structlog.get_logger()


class Ownership:
    """The owned partitions and the home of every asset."""

    def __init__(self, source: Source, store: WindowStore, groups: Mapping[str, Watched]) -> None:
        self._source, self._store, self._groups = source, store, groups
        self.partitions: dict[Partition, OwnedPartition] = {}
        self._home: dict[str, Partition] = {}

    async def take(self, partition: Partition, now_s: float) -> None:
        """1. claim, 2. restore what is stored, or begin where a rebuild must, 3. read on from there."""
        claim = await self._store.claim(partition)
        committed = await self._source.committed(partition)
        first = await self._source.first_offset(partition)
        groups = {name: await self._windows(claim, watched, committed, first) for name, watched in self._groups.items()}
        hit(DURING_TAKEOVER)
        position = min(windows.cursor for windows in groups.values())
        publish_from = committed.offset if committed else 0
        if committed is None:
            # A reader of the newest records only would begin elsewhere after a crash.
            await self._source.commit({partition: Position(position, f"rebuild={position}")})
        self.partitions[partition] = OwnedPartition(partition, claim, groups, publish_from, position, saved=position)
        for windows in groups.values():
            self._home.update(dict.fromkeys(windows.rings.names, partition))
            windows.silence.listen_to(range(len(windows.rings)), now_s)
        # Always: records may have been fetched while this was under way, and nobody was there to take them.
        self._source.seek(partition, position)
        facts = {"partition": str(partition), "offset": position, "epoch": claim.epoch}
        log.info("partition taken", event_code=PARTITION_TAKEN, **facts)

    def drop(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self.partitions.pop(partition, None)
        self._home = {asset: home for asset, home in self._home.items() if home in self.partitions}

    def strangers(self, assets: Collection[str], partition: Partition) -> set[str]:
        """An asset belongs to one partition; records of it from elsewhere must not touch its windows."""
        return {asset for asset in assets if self._home.setdefault(asset, partition) != partition}

    def forget(self, assets: Collection[str]) -> None:
        """They may come back anywhere."""
        for asset in assets:
            self._home.pop(asset, None)

    async def _windows(self, claim: Claim, watched: Watched, committed: Position | None, first: int) -> GroupWindows:
        windows = GroupWindows.empty(watched, cursor=0)
        stored = await self._store.load(claim, windows.layout)
        if stored is not None and restore_windows(windows, stored) and windows.cursor >= first:
            return windows
        if committed is None:
            return GroupWindows.empty(watched, cursor=await self._source.start_offset(claim.partition))
        wanted = parse_rebuild_offset(committed.metadata)
        windows = GroupWindows.empty(watched, cursor=committed.offset if wanted is None else max(wanted, first))
        windows.lossy = wanted is None or wanted < first
        event = "windows are rebuilt from the log"
        log.warning(
            event, partition=str(claim.partition), group=watched.name, offset=windows.cursor, lossy=windows.lossy
        )
        return windows
