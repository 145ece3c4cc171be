"""Publishes in order: events and dead letters, then the latest state per asset. What cannot be encoded is told."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from agent.dead_letters.letter import DeadLetter
from agent.event_types import SENSOR_UNHEALTHY
from agent.events.fault import Fault
from agent.events.group import GroupRuntime
from agent.events.outgoing import BatchResult, OutgoingEvent
from agent.events.payloads import Origin, event_message, state_message
from agent.runtime.instruments import Instruments
from agent.runtime.last_door import LastDoor
from agent.runtime.partitions.owned import OwnedPartition
from agent.windows.asset_state import AssetState
from connectors.base import Sink
from connectors.failpoints import AFTER_PUBLISH, AFTER_STATES, hit
from connectors.records import Message
from connectors.timestamps import NS_PER_S

_MAX_WRITE_BYTES = 4 << 20

Refuse = Callable[[Fault], DeadLetter]


class Publisher:
    def __init__(
        self,
        sink: Sink,
        groups: Mapping[str, GroupRuntime],
        instruments: Instruments,
        door: LastDoor | None = None,
        *,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._wall_ns = wall_ns
        self._sink, self._groups, self._instruments = sink, groups, instruments
        self._door = door or LastDoor(instruments.counters)

    async def publish(
        self,
        owned: OwnedPartition,
        results: Sequence[BatchResult],
        dead_letters: Sequence[DeadLetter],
        refuse: Refuse,
    ) -> None:
        """What an earlier owner has published (records below `publish_from`) is not published again.

        `refuse` gives the dead letter for an event that cannot be encoded.
        """
        events = [
            outgoing for result in results for outgoing in result.events if outgoing.event.offset >= owned.publish_from
        ]
        encoded, faults = _encode(events)
        events = [outgoing for outgoing, _ in encoded]
        letters = [*dead_letters, *map(refuse, faults)]
        letters = sorted((each for each in letters if each.offset >= owned.publish_from), key=lambda each: each.offset)
        messages = [message for _, message in encoded] + [letter.message for letter in letters]
        if messages:
            for part in _parts(messages):
                await self._sink.write(part)
            hit(AFTER_PUBLISH)
        await self._write_states(events)
        self._report(results, events)
        for letter in letters:
            example = f"{owned.partition}@{letter.offset}: {letter.detail}"
            self._instruments.counters.count_dead_letter(letter.reason, example)
            self._instruments.rejected(letter)

    async def publish_states(self, owned: OwnedPartition) -> None:
        """The last state of every asset again: an earlier owner may have written an older one after a newer one."""
        states = [
            (self._groups[group].origin(asset, owned.partition), state)
            for group, known in owned.states.items()
            for asset, state in known.items()
        ]
        messages = self._encode_states(states)
        if messages:
            await self._sink.write(messages)

    async def announce(self, events: Sequence[OutgoingEvent]) -> None:
        """Technical events that belong to no batch; one that cannot be encoded is counted and left out."""
        encoded, faults = _encode(events)
        for fault in faults:
            self._door.note(replace(fault, stage="announce"), "an announcement")
        if encoded:
            await self._sink.write([message for _, message in encoded])
        self._report([], [outgoing for outgoing, _ in encoded])

    async def _write_states(self, events: Sequence[OutgoingEvent]) -> None:
        last = {outgoing.event.asset: (outgoing.origin, outgoing.state) for outgoing in events if outgoing.state}
        messages = self._encode_states(last.values())
        if messages:
            await self._sink.write(messages)
            hit(AFTER_STATES)

    def _encode_states(self, states: Iterable[tuple[Origin, AssetState]]) -> list[Message]:
        """A state that cannot be encoded is counted and left out: its event is missing for the same reason."""
        messages = []
        for origin, state in states:
            try:
                messages.append(state_message(origin, state))
            except Exception as error:  # noqa: BLE001  # the last door
                self._door.note(Fault("publish", error), str(origin.partition))
        return messages

    def _report(self, results: Sequence[BatchResult], events: Sequence[OutgoingEvent]) -> None:
        now_ns = self._wall_ns()
        for outgoing in events:
            self._instruments.counters.events[outgoing.event.type] += 1
            if outgoing.state is not None:
                # A sender whose clock is ahead gives windows that end in the future.
                delay_s = max(now_ns - outgoing.event.time_ns, 0) / NS_PER_S
                self._instruments.status.event_delay.observe(delay_s)
            if outgoing.event.type == SENSOR_UNHEALTHY:
                self._instruments.counters.sensor_faults[outgoing.event.data["finding"]] += 1
        for window in (window for result in results for window in result.windows):
            self._instruments.counters.count_judged(window.group, window.reason)
        try:
            self._show(results, events)
        except Exception as error:  # noqa: BLE001  # a live view must not stop the work
            self._door.note(Fault("publish", error), "the live view")

    def _show(self, results: Sequence[BatchResult], events: Sequence[OutgoingEvent]) -> None:
        observer = self._instruments.observer
        for result in results:
            for window in result.windows:
                observer.classified(window)
        for outgoing in events:
            observer.published(outgoing)


def _parts(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Mostly all at once. Each write has its own time limit, which a poll of large dead letters would exceed."""
    part: list[Message] = []
    size = 0
    for message in messages:
        part.append(message)
        size += len(message.key or b"") + len(message.value or b"")
        if size >= _MAX_WRITE_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _encode(events: Sequence[OutgoingEvent]) -> tuple[list[tuple[OutgoingEvent, Message]], list[Fault]]:
    encoded, faults = [], []
    for outgoing in events:
        try:
            encoded.append((outgoing, event_message(outgoing.event, outgoing.origin.namespace)))
        except Exception as error:  # noqa: BLE001  # the last door
            faults.append(Fault("publish", error, outgoing.event.offset))
    return encoded, faults
