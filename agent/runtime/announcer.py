"""What is told beside the batches: changes of the log, assets that fell silent, and known states once more."""

from collections.abc import Callable, Collection, Mapping

from agent.events.fault import Fault
from agent.events.group import GroupRuntime
from agent.events.outgoing import OutgoingEvent
from agent.events.payloads import log_replaced_event, lost_records_event
from agent.events.technical import idle_events
from agent.health.counters import Counters
from agent.runtime.checkpointer import Checkpointer
from agent.runtime.last_door import LastDoor
from agent.runtime.partitions.log_changes import CommitMoved, LogChange, LogReplaced, RecordsLost
from agent.runtime.partitions.owned import OwnedPartition
from agent.runtime.publisher import Publisher
from connectors.base import Fenced


class Announcer:
    """Belongs to the loop, which calls it while no batch is being published."""

    def __init__(
        self,
        publisher: Publisher,
        checkpointer: Checkpointer,
        groups: Mapping[str, GroupRuntime],
        *,
        door: LastDoor,
        counters: Counters,
        clock: Callable[[], float],
    ) -> None:
        self._publisher, self._checkpointer, self._groups = publisher, checkpointer, groups
        self._door, self._counters, self._clock = door, counters, clock

    async def announce_change(self, change: LogChange) -> None:
        """Counted, and told as an event of every group; before the change has any effect on what is stored."""
        if isinstance(change, CommitMoved):
            self._counters.moved_commits += 1
            return
        if isinstance(change, LogReplaced):
            self._counters.replaced_logs[change.reason] += 1
        else:
            self._counters.lost_records += change.count
        await self._publisher.announce([_change_event(group, change) for group in self._groups.values()])

    async def announce_idle(self, partitions: Collection[OwnedPartition]) -> None:
        """After a poll that brought nothing: the records of an asset that seems idle are not waiting in a backlog."""
        for owned in partitions:
            events = [event for name in owned.groups for event in self._idle_events(owned, name)]
            if events and await self._still_owns(owned):
                await self._publisher.announce(events)

    async def republish_states(self, partitions: Collection[OwnedPartition], every_s: float) -> None:
        """After a take-over and from time to time; not during a rebuild, when newer states were published already."""
        for owned in partitions:
            age_s = self._clock() - owned.states_published_s
            due = not owned.rebuilding and age_s >= every_s
            if due and await self._still_owns(owned):
                await self._publisher.publish_states(owned)
                owned.states_published_s = self._clock()

    def _idle_events(self, owned: OwnedPartition, name: str) -> list[OutgoingEvent]:
        """They are technical and belong to no record, so one that cannot be built is only counted."""
        group, windows, offset = self._groups[name], owned.groups[name], max(owned.position - 1, 0)
        try:
            return idle_events(group, windows, owned.partition, now_s=self._clock(), offset=offset)
        except Exception as error:  # noqa: BLE001  # the last door
            self._door.note(Fault("announce", error), str(owned.partition))
            return []

    async def _still_owns(self, owned: OwnedPartition) -> bool:
        """False for one that a revocation has given up meanwhile. Raises `Fenced` when another agent has claimed it."""
        try:
            await self._checkpointer.verify(owned)
        except Fenced:
            if not owned.given_up:
                raise
        return not owned.given_up


def _change_event(group: GroupRuntime, change: LogReplaced | RecordsLost) -> OutgoingEvent:
    origin = group.origin(group.spec.name, change.partition)
    position, first, time_ms = change.position, change.first, change.time_ms
    if isinstance(change, LogReplaced):
        event = log_replaced_event(
            origin, reason=change.reason, position=position, first=first, end=change.end, time_ms=time_ms
        )
    else:
        event = lost_records_event(origin, position=position, first=first, time_ms=time_ms)
    return OutgoingEvent(event, origin, group.spec.channels)
