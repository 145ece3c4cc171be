"""Publishes in order: events and dead letters, then the latest state per asset."""

from collections.abc import Mapping, Sequence

from agent.dead_letters.letter import DeadLetter
from agent.events.assemble import BatchResult, OutgoingEvent
from agent.events.group import GroupRuntime
from agent.events.payloads import event_message, state_message
from agent.runtime.instruments import Instruments
from agent.runtime.ownership import OwnedPartition
from connectors.base import Sink
from connectors.failpoints import AFTER_PUBLISH, AFTER_STATES, hit


class Publisher:
    def __init__(self, sink: Sink, groups: Mapping[str, GroupRuntime], instruments: Instruments) -> None:
        self._sink, self._groups, self._instruments = sink, groups, instruments

    async def publish(
        self, owned: OwnedPartition, results: Sequence[BatchResult], dead_letters: Sequence[DeadLetter]
    ) -> None:
        """What an earlier owner has published (records below `publish_from`) is not published again."""
        events = [
            outgoing for result in results for outgoing in result.events if outgoing.event.offset >= owned.publish_from
        ]
        letters = [letter for letter in dead_letters if letter.offset >= owned.publish_from]
        await self._write(events, letters)
        if events or letters:
            hit(AFTER_PUBLISH)
        await self._write_states(events)
        self._report(results, events)
        for letter in letters:
            example = f"{owned.partition}@{letter.offset}: {letter.detail}"
            self._instruments.counters.count_dead_letter(letter.reason, example)

    async def publish_states(self, owned: OwnedPartition) -> None:
        """The last state of every asset again: an earlier owner may have written an older one after a newer one."""
        messages = [
            state_message(self._groups[group].origin(asset, owned.partition), state)
            for group, states in owned.states.items()
            for asset, state in states.items()
        ]
        if messages:
            await self._sink.write(messages)

    async def announce(self, events: Sequence[OutgoingEvent]) -> None:
        """Technical events that belong to no batch."""
        await self._write(events, [])
        self._report([], events)

    async def _write(self, events: Sequence[OutgoingEvent], letters: Sequence[DeadLetter]) -> None:
        messages = [event_message(outgoing.event, outgoing.origin.namespace) for outgoing in events]
        messages += [letter.message for letter in letters]
        if messages:
            await self._sink.write(messages)

    async def _write_states(self, events: Sequence[OutgoingEvent]) -> None:
        last = {outgoing.event.asset: (outgoing.origin, outgoing.state) for outgoing in events if outgoing.state}
        if last:
            await self._sink.write([state_message(origin, state) for origin, state in last.values()])
            hit(AFTER_STATES)

    def _report(self, results: Sequence[BatchResult], events: Sequence[OutgoingEvent]) -> None:
        counters, observer = self._instruments.counters, self._instruments.observer
        for result in results:
            for window in result.windows:
                observer.classified(window)
        for outgoing in events:
            counters.events[outgoing.event.type] += 1
            observer.published(outgoing)
