"""The partitions that this agent owns, and what can be told of all of them together."""

from collections import Counter
from collections.abc import Collection, Mapping

import structlog

from agent.logs import PARTITION_TAKEN
from agent.runtime.partitions.owned import OwnedPartition
from agent.runtime.partitions.restore import Announce, PartitionRestorer
from agent.windows.ring_buffers import NEVER
from agent.windows.spec import GroupSpec
from anchormoe.windows import Floats
from connectors.base import LogIdentity, Source, WindowStore
from connectors.records import Partition

log = structlog.get_logger()


class Ownership:
    """The owned partitions."""

    def __init__(self, source: Source, store: WindowStore, specs: Collection[GroupSpec], announce: Announce) -> None:
        self._source = source
        self._restorer = PartitionRestorer(source, store, specs, announce)
        self.partitions: dict[Partition, OwnedPartition] = {}
        self._twins: set[frozenset[Partition]] = set()

    async def take(self, partition: Partition, now_s: float) -> OwnedPartition:
        """1. Claim it, and restore it. 2. Read on from there."""
        owned = await self._restorer.claim(partition)
        self.partitions[partition] = owned
        for windows in owned.groups.values():
            windows.idle.start_tracking(range(len(windows.rings)), now_s)
        # Always: records that were fetched while this was under way have been dropped.
        self._source.seek(partition, owned.position)
        facts = {"partition": str(partition), "offset": owned.position, "epoch": owned.claim.epoch}
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

    def count_states(self) -> Mapping[tuple[str, str], int]:
        """Assets by group and state."""
        counts: Counter[tuple[str, str]] = Counter()
        for owned in self.partitions.values():
            for group, states in owned.states.items():
                counts.update((group, asset.state) for asset in states.values())
        return counts

    def recent_samples(self, asset: str) -> tuple[str, int, Floats] | None:
        """The group of an asset, the index after its newest sample, and its samples (C, T)."""
        for owned in self.partitions.values():
            for name, windows in owned.groups.items():
                row = windows.rings.rows.get(asset)
                if row is not None and windows.rings.newest[row] != NEVER:
                    return (name, *windows.rings.recent(row))
        return None


def _holds(owned: OwnedPartition, asset: str) -> bool:
    return any(asset in windows.rings.rows for windows in owned.groups.values())


def _has_changed(owned: OwnedPartition, now: LogIdentity) -> bool:
    """A lower epoch is the answer of a broker that has not heard of the election yet."""
    epoch = now.leader_epochs.get(owned.partition.number)
    made_anew = owned.seen.log is not None and now.id is not None and owned.seen.log != now.id
    return made_anew or (owned.leader_epoch is not None and epoch is not None and epoch > owned.leader_epoch)
