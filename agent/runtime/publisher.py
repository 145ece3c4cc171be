"""Out they go, in order: events and dead letters first, then the last states they lead to."""

from agent.dead_letters.letter import DeadLetter
from agent.events.assemble import BatchResult, OutgoingEvent
from agent.events.payloads import event_message, state_message
from agent.health.counters import Counters
from agent.runtime.observer import Observer
from agent.windows.group import OwnedPartition
from connectors.base import Sink
from connectors.failpoints import AFTER_PUBLISH, AFTER_STATES, hit
from connectors.records import Message


class Publisher:
    def __init__(self, sink: Sink, tally: Counters, observer: Observer) -> None:
        self._sink, self._tally, self._observer = sink, tally, observer

    async def publish(self, owned: OwnedPartition, said: list[BatchResult], letters: list[DeadLetter]) -> None:
        """What an earlier owner has published (below `publish_from`) is not said again."""
        new = [
            sighting
            for assessment in said
            for sighting in assessment.sightings
            if sighting.event.data["input"]["offset"] >= owned.publish_from
        ]
        refused = [letter for letter in letters if letter.offset >= owned.publish_from]
        await self._write([event_message(sighting.event, sighting.origin.namespace) for sighting in new], refused)
        if new or refused:
            hit(AFTER_PUBLISH)
        await self._write_states(new)
        self._count(said, new, refused)

    async def restate(self, owned: OwnedPartition) -> None:
        """The last state of every asset again: an earlier owner may have written an older one after a newer one."""
        messages = [
            state_message(windows.watched.origin(asset, owned.partition), standing)
            for windows in owned.groups.values()
            for asset, standing in windows.standings.items()
        ]
        if messages:
            await self._sink.write(messages)

    async def announce(self, sightings: list[OutgoingEvent]) -> None:
        """Technical events that belong to no batch."""
        await self._write([event_message(sighting.event, sighting.origin.namespace) for sighting in sightings], [])
        self._count([], sightings, [])

    async def _write(self, events: list[Message], refused: list[DeadLetter]) -> None:
        messages = [*events, *(letter.message for letter in refused)]
        if messages:
            await self._sink.write(messages)

    async def _write_states(self, new: list[OutgoingEvent]) -> None:
        last = {sighting.event.asset: (sighting.origin, sighting.standing) for sighting in new if sighting.standing}
        if last:
            await self._sink.write([state_message(origin, standing) for origin, standing in last.values()])
            hit(AFTER_STATES)

    def _count(self, said: list[BatchResult], new: list[OutgoingEvent], refused: list[DeadLetter]) -> None:
        for assessment in said:
            for glance in assessment.glances:
                self._observer.judged(glance)
        for sighting in new:
            self._tally.events[sighting.event.type] += 1
            self._observer.published(sighting)
        for letter in refused:
            self._tally.dead_letters[letter.reason] += 1
