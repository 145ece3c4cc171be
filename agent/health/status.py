"""What the pipeline reports about itself, as plain values: cheap to write, for health, metrics and watchdog. No I/O."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, get_args

from connectors.records import Partition

Stage = Literal["decode", "window", "judge", "publish", "checkpoint"]
STAGES: tuple[Stage, ...] = get_args(Stage)

_SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_COUNTS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0)
_PEAK_PERIOD_S = 60.0


@dataclass(slots=True)
class Histogram:
    """How often a value fell at or below each bound; the last count is for what lies above all of them.

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
    """The largest value of the last one to two periods: old enough for every scraper to see, young enough to fade."""

    _period: float = -1.0
    _now: float = 0.0
    _before: float = 0.0

    def observe(self, value: float, now: float) -> None:
        self._turn(now)
        self._now = max(self._now, value)

    def value(self, now: float) -> float:
        self._turn(now)
        return max(self._now, self._before)

    def _turn(self, now: float) -> None:
        period = now // _PEAK_PERIOD_S
        if period > self._period:
            self._before = self._now if period == self._period + 1 else 0.0
            self._period, self._now = period, 0.0


@dataclass(slots=True)
class PartitionStatus:
    """An owned partition: the owner's epoch, the next offset to read, the newest event time in it (ns)."""

    epoch: int
    position: int | None = None
    newest_ns: int | None = None


@dataclass(slots=True)
class RuntimeStatus:
    """Times are the clock's (monotonic seconds). `well_at` is when the agent last got on or had nothing to do."""

    clock: Callable[[], float] = time.monotonic
    last_poll: float | None = None
    last_progress: float | None = None
    last_beat: float | None = None
    well_at: float = field(init=False)
    models_loaded: bool = False
    store_reachable: bool | None = None
    waiting_for_store: bool = False
    paused: bool = False
    holdings: dict[Partition, PartitionStatus] = field(default_factory=dict)
    lag: dict[Partition, int] | None = None
    queued_batches: int = 0
    queued_windows: int = 0
    batch_records: Histogram = field(default_factory=lambda: Histogram(_COUNTS))
    batch_windows: Histogram = field(default_factory=lambda: Histogram(_COUNTS))
    stages: dict[Stage, Histogram] = field(default_factory=lambda: {stage: Histogram(_SECONDS) for stage in STAGES})
    loop_delay: Histogram = field(default_factory=lambda: Histogram(_SECONDS))
    loop_delay_peak: RollingMax = field(default_factory=RollingMax)
    checkpoint_bytes: int = 0
    rejected_claims: int = 0
    source_restarts: int = 0
    reloads: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.well_at = self.clock()

    @property
    def stuck_for_s(self) -> float:
        """How long there has been lag (or nobody could say whether) without progress."""
        return self.clock() - self.well_at

    @property
    def idle(self) -> bool:
        """Everything is read and published: a model that hangs on the last batch is not idle."""
        return self.total_lag == 0 and self.queued_batches == 0

    @property
    def total_lag(self) -> int | None:
        return None if self.lag is None else sum(self.lag.values())

    def polled(self) -> None:
        self.last_poll = self.clock()

    def progressed(self) -> None:
        self.last_progress = self.well_at = self.clock()

    def beat(self, delay_s: float) -> None:
        """The event loop turned, this much later than asked for."""
        self.last_beat = self.clock()
        self.loop_delay.observe(delay_s)
        self.loop_delay_peak.observe(delay_s, self.last_beat)

    def holds(self, epochs: Mapping[Partition, int]) -> None:
        """These partitions and no others are ours; one with another epoch was taken anew."""
        kept = {at: held for at, held in self.holdings.items() if epochs.get(at) == held.epoch}
        self.holdings = {at: kept.get(at) or PartitionStatus(epoch) for at, epoch in epochs.items()}
        self.progressed()

    def took_in(self, partition: Partition, *, records: int, due: int, position: int, newest_ns: int | None) -> None:
        """A batch is in the windows and made some of them due."""
        self.batch_records.observe(records)
        self.batch_windows.observe(due)
        held = self.holdings.setdefault(partition, PartitionStatus(0))
        held.position = position
        if newest_ns is not None:
            held.newest_ns = max(newest_ns, held.newest_ns or newest_ns)
        self.progressed()

    def queued(self, *, batches: int, windows: int) -> None:
        """Handed to the model and not yet published."""
        self.queued_batches, self.queued_windows = batches, windows

    def lag_measured(self, lag: Mapping[Partition, int] | None) -> None:
        """None when the other side did not say. Nothing to do is as good as progress; so is waiting on purpose."""
        self.lag = None if lag is None else dict(lag)
        if self.idle or self.waiting_for_store:
            self.well_at = self.clock()

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        begun = self.clock()
        try:
            yield
        finally:
            self.stages[stage].observe(self.clock() - begun)
