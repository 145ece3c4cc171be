"""Pumps for a month: faults of minutes to hours, glitches of seconds, broken sensors, lost connections. Pure.

The physics is the simulator's. It is run an hour at a time, and every hour has at most one fault, so that a month of
ten samples a second takes minutes. The content of an hour depends only on the pump's name and the seed.
"""

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from connectors.decoding import encode_chunk
from connectors.records import Partition, Record
from connectors.simulator.plants import KINDS, SimulatedAsset
from connectors.simulator.plants.episodes import Episode
from connectors.simulator.plants.kinds import Block

S = 1_000_000_000
START_NS = 1_700_000_000 * S // (3600 * S) * (3600 * S)
HOUR = 36_000
"""Samples of an hour."""
CHUNK = 600
"""Samples per record: a minute."""
MOST = 64
"""Offsets per minute; unused ones are gaps."""
STATES = KINDS["pump"].states
WEIGHTS = {"bearing_wear": 0.65, "blockage": 0.25, "cavitation": 0.10}
"""Share of each fault: slow wear is more frequent than what an operator causes."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """From one sample to another: the state of a fault, `sensor` (of `channel`) or `silence`."""

    what: str
    start: int
    stop: int
    severity: float = 1.0
    ramp: int = 40
    channel: int = 0

    def begin_ns(self) -> int:
        return START_NS + self.start * S // 10

    def end_ns(self) -> int:
        return START_NS + self.stop * S // 10


class Pump:
    """`faults` last longer than a minute, `glitches` seconds; `outages` are of sensors and of the connection."""

    def __init__(self, name: str, hours: int, seed: int = 7) -> None:
        self.name, self.hours, self._seed = name, hours, seed
        self._asset = SimulatedAsset(name, KINDS["pump"], seed)
        self._dice = np.random.default_rng([seed, *name.encode()])
        self.faults: list[Disturbance] = []
        self.glitches: list[Disturbance] = []
        self._draw_faults()
        self.outages = [*self._draw_outages("sensor", every_h=100, least_s=600, most_s=6 * 3600)]
        self.outages += [*self._draw_outages("silence", every_h=60, least_s=90, most_s=1800)]

    def _draw_faults(self) -> None:
        """Hour by hour: in one of five a fault begins, in two of five there is a glitch."""
        hour = 0
        while hour < self.hours:
            drawn = self._dice.random()
            if drawn < 0.2:
                fault = self._fault(hour)
                self.faults.append(fault)
                hour = fault.stop // HOUR
            elif drawn < 0.6:
                start = hour * HOUR + int(self._dice.integers(600, HOUR - 1200))
                length = int(self._dice.integers(20, 80))
                self.glitches.append(Disturbance(self._state(), start, start + length, ramp=5))
            hour += 1

    def _fault(self, hour: int) -> Disturbance:
        """Two minutes to four hours, most of them short; it ends a minute before an hour's end."""
        start = hour * HOUR + int(self._dice.integers(3000, 18_000))
        stop = start + int(1200 * 120 ** self._dice.random())
        stop = min(stop, stop // HOUR * HOUR + HOUR - 600, self.hours * HOUR - 600)
        return Disturbance(self._state(), start, stop, 0.6 + 0.4 * self._dice.random())

    def _state(self) -> str:
        return str(self._dice.choice(list(WEIGHTS), p=list(WEIGHTS.values())))

    def _draw_outages(self, what: str, *, every_h: float, least_s: int, most_s: int) -> Iterator[Disturbance]:
        for _ in range(self._dice.poisson(self.hours / every_h)):
            start = int(self._dice.integers(0, self.hours * HOUR))
            stop = start + 10 * int(least_s * (most_s / least_s) ** self._dice.random())
            yield Disturbance(what, start, stop, channel=int(self._dice.integers(5)))

    def hour(self, number: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Values (n, C) with NaN where a sensor gave nothing, and which samples were sent (n,)."""
        base = number * HOUR
        index = np.arange(base, base + HOUR)
        kind = self._asset.kind
        block = Block(self._asset.seed, index, index - base, kind.period_ns / 1e9, STATES, self._episode(base))
        values, sent = kind.signals(block).astype(np.float32), np.ones(HOUR, bool)
        for one in self._outages_of_hour(number):
            hit = slice(max(one.start - base, 0), max(one.stop - base, 0))
            if one.what == "silence":
                sent[hit] = False
            else:
                values[hit, one.channel] = np.nan
        return values, sent

    def _outages_of_hour(self, number: int) -> list[Disturbance]:
        """The outages, and short ones: every few minutes a sensor or the connection stutters for seconds."""
        dice, base = np.random.default_rng([self._seed, number, *self.name.encode()]), number * HOUR
        starts = base + dice.integers(0, HOUR, dice.poisson(12))
        stutters = [
            Disturbance(str(dice.choice(["sensor", "silence"], p=[0.7, 0.3])), int(at), int(at + dice.integers(5, 100)))
            for at in starts
        ]
        return [one for one in self.outages if one.start < base + HOUR and one.stop > base] + stutters

    def _episode(self, base: int) -> Episode:
        found = self._by_hour.get(base // HOUR)
        if found is None:
            return Episode(0, 0, 1, 1, 0.0, 1)
        state, start, stop = STATES.index(found.what), found.start - base, found.stop - base
        return Episode(state, start, stop, found.ramp, found.severity, 2 * found.ramp)

    @cached_property
    def _by_hour(self) -> dict[int, Disturbance]:
        every = [*self.faults, *self.glitches]
        return {hour: one for one in every for hour in range(one.start // HOUR, one.stop // HOUR + 1)}


class MonthLog:
    """Minutes of the pumps as binary chunks; silences leave gaps. One partition, minute by minute."""

    def __init__(self, pumps: Sequence[Pump], minutes: range) -> None:
        self._pumps, self._minutes = tuple(pumps), minutes
        self._hour = lru_cache(maxsize=2 * len(pumps))(lambda pump, number: self._pumps[pump].hour(number))

    partitions = (Partition("month", 0),)

    def first_offset(self, partition: Partition) -> int:
        return self._minutes.start * MOST

    def end_offset(self, partition: Partition) -> int:
        return self._minutes.stop * MOST

    def read(self, partition: Partition, offset: int, max_records: int) -> tuple[list[Record], int]:
        """Whole minutes."""
        first = offset // MOST
        stop = min(first + max(max_records // MOST, 1), self._minutes.stop)
        return [record for minute in range(first, stop) for record in self._minute(minute)], stop * MOST

    def _minute(self, minute: int) -> Iterator[Record]:
        number, place = divmod(minute * CHUNK, HOUR)
        offset = minute * MOST
        for at, pump in enumerate(self._pumps):
            values, sent = self._hour(at, number)
            for run in _runs(sent[place : place + CHUNK]):
                start_ns = START_NS + (minute * CHUNK + run.start) * S // 10
                chunk = values[place + run.start : place + run.stop]
                end_ms = start_ns // 1_000_000 + len(chunk) * 100
                yield Record(
                    offset, end_ms, pump.name.encode(), encode_chunk(chunk, start_ns=start_ns, period_ns=S // 10)
                )
                offset += 1

    def lag(self, partition: Partition, offset: int) -> int:
        return 0 if self.at_end(partition, offset) else 1

    def at_end(self, partition: Partition, offset: int) -> bool:
        return offset >= self._minutes.stop * MOST

    def next_record_in_s(self) -> float:
        return math.inf

    def watch(self, appended: asyncio.Event) -> None:
        """Nothing to watch: the log is complete from the start."""

    def unwatch(self, appended: asyncio.Event) -> None:
        """Nothing was watched."""


def _runs(sent: NDArray[np.bool_]) -> Iterator[slice]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], sent, [False]]).astype(np.int8)))
    yield from (slice(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True))
