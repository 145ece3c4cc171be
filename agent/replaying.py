"""The live agent's offline twin: the very pipeline over a bounded source, windows and events in this process."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent.alongside import alongside
from agent.app import Parts, build
from agent.candidates import LoadModel
from agent.event_set import EventSet
from agent.pipeline import Pace, Pipeline
from agent.settings import LoadedPlant
from agent.tally import Tally
from connectors.jsonl import to_line
from connectors.memory import MemoryWindowStore
from connectors.records import DEAD_LETTERS, EVENTS, Message
from connectors.seams import Source

Report = Callable[[int, int], None]
"""Told how many records are done, and of how many."""

_REPORT_EVERY_S = 0.25
_NEVER_S = 1e9
_LETTERS_KEPT = 100_000


@dataclass(slots=True)
class Replayed:
    """What came out. `letters` are lines of dead letters, the first hundred thousand."""

    events: EventSet = field(default_factory=EventSet)
    letters: list[bytes] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    whole: bool = False

    @property
    def records_per_s(self) -> float:
        return self.tally.records / self.seconds if self.seconds else 0.0


class ReplaySink:
    """Last states are left out: they follow from the events."""

    def __init__(self, into: Replayed) -> None:
        self._into = into

    async def start(self) -> None:
        """There is nothing to open."""

    async def write(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.stream == EVENTS:
                self._into.events.add(message)
            elif message.stream == DEAD_LETTERS and len(self._into.letters) < _LETTERS_KEPT:
                self._into.letters.append(to_line(message))

    async def close(self) -> None:
        """There is nothing to close."""


async def replay(
    plant: LoadedPlant,
    source: Source,
    *,
    stop: asyncio.Event,
    report: Report,
    load_model: LoadModel | None = None,
) -> Replayed:
    """As fast as it goes, until the source ends or `stop`. Raises what the live agent would."""
    replayed = Replayed()
    parts = Parts(source, MemoryWindowStore(), ReplaySink(replayed), _unhurried(plant))
    pipeline = build(plant, tally=replayed.tally, load_model=load_model, parts=parts)
    begun = time.monotonic()
    await alongside(pipeline.run(stop), [_watch(pipeline, report)])
    replayed.seconds, replayed.whole = time.monotonic() - begun, not stop.is_set()
    return replayed


def _unhurried(plant: LoadedPlant) -> Pace:
    """No checkpoints on the way: after a crash a replay begins anew."""
    limits = plant.settings.limits
    return Pace(
        max_records=limits.max_batch_records,
        in_flight=limits.in_flight_batches,
        checkpoint_every_s=_NEVER_S,
        checkpoint_records=1 << 62,
        stop_deadline_s=_NEVER_S,
    )


async def _watch(pipeline: Pipeline, report: Report) -> None:
    while True:
        lags = await pipeline.lag()
        if lags is not None:
            done = pipeline.tally.records
            report(done, done + sum(lags.values()))
        await asyncio.sleep(_REPORT_EVERY_S)
