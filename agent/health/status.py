"""What the runtime reports about itself, as plain values that are cheap to write: for metrics and readiness. No I/O.

Like the counters it is only written by the work, never read by it.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from connectors.records import Partition

if TYPE_CHECKING:
    from agent.models.classifier import ModelName

Stage = Literal["decode", "ingest", "classify", "events", "publish", "checkpoint"]
STAGES: tuple[Stage, ...] = get_args(Stage)

_SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_COUNTS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0)
_DELAYS_S = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0)
_PERIOD_S = 60.0


@dataclass(slots=True)
class Histogram:
    """How often a value was at or below each bound; the last count is for values above all of them.

    One writer at a time; a reader in another thread may see a count before its sum.
    """

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass(slots=True)
class RollingMax:
    """The largest value of the last one to two minutes: long enough for every scraper to see it, then it fades."""

    _period: float = -1.0
    _current: float = 0.0
    _before: float = 0.0

    def observe(self, value: float, now_s: float) -> None:
        self._advance(now_s)
        self._current = max(self._current, value)

    def value(self, now_s: float) -> float:
        self._advance(now_s)
        return max(self._current, self._before)

    def _advance(self, now_s: float) -> None:
        period = now_s // _PERIOD_S
        if period > self._period:
            self._before = self._current if period == self._period + 1 else 0.0
            self._period, self._current = period, 0.0


@dataclass(slots=True)
class PartitionStatus:
    """An owned partition: the epoch of its claim, the next offset to read, the newest event time in it."""

    epoch: int
    position: int | None = None
    newest_ns: int | None = None


@dataclass(slots=True)
class RuntimeStatus:
    """Times are monotonic seconds. `last_tick_s` is when the event loop last ran its ticker.

    `assets` counts the owned assets by group and state, `models` names the model of each group: the work keeps both
    anyway, so they are asked for when scraped, on the event loop.
    """

    clock: Callable[[], float] = time.monotonic
    last_tick_s: float | None = None
    models_loaded: bool = False
    store_reachable: bool | None = None
    paused: bool = False
    partitions: dict[Partition, PartitionStatus] = field(default_factory=dict)
    batch_records: Histogram = field(default_factory=lambda: Histogram(_COUNTS))
    batch_windows: Histogram = field(default_factory=lambda: Histogram(_COUNTS))
    record_windows_max: RollingMax = field(default_factory=RollingMax)
    stages: dict[Stage, Histogram] = field(default_factory=lambda: {stage: Histogram(_SECONDS) for stage in STAGES})
    loop_delay: Histogram = field(default_factory=lambda: Histogram(_SECONDS))
    loop_delay_max: RollingMax = field(default_factory=RollingMax)
    event_delay: Histogram = field(default_factory=lambda: Histogram(_DELAYS_S))
    last_commit_s: float | None = None
    assets: Callable[[], Mapping[tuple[str, str], int]] = dict
    models: "Callable[[], Mapping[str, ModelName]]" = dict
    checkpoint_bytes: int = 0
    rejected_claims: int = 0
    source_restarts: int = 0
    model_reloads: Counter[str] = field(default_factory=Counter)

    def ticked(self, delay_s: float) -> None:
        """The event loop ran its ticker, this much later than asked."""
        self.last_tick_s = self.clock()
        self.loop_delay.observe(delay_s)
        self.loop_delay_max.observe(delay_s, self.last_tick_s)

    def committed(self) -> None:
        """An offset was committed."""
        self.last_commit_s = self.clock()

    def owns(self, epochs: Mapping[Partition, int]) -> None:
        """Exactly these partitions are owned; one with another epoch was claimed again and starts afresh."""
        kept = {at: status for at, status in self.partitions.items() if epochs.get(at) == status.epoch}
        self.partitions = {at: kept.get(at) or PartitionStatus(epoch) for at, epoch in epochs.items()}

    def ingested(self, partition: Partition, *, records: int, due: int, position: int, newest_ns: int | None) -> None:
        """A batch is in the windows; `due` of them became due."""
        self.batch_records.observe(records)
        self.batch_windows.observe(due)
        status = self.partitions.setdefault(partition, PartitionStatus(0))
        status.position = position
        if newest_ns is not None:
            status.newest_ns = max(newest_ns, status.newest_ns or newest_ns)

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """Measures how long the block takes."""
        begun = self.clock()
        try:
            yield
        finally:
            self.stages[stage].observe(self.clock() - begun)
