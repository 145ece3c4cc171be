"""Whether there is work to do and whether it advances: what the watchdog and the liveness check decide by. No I/O.

This is state of the work itself, not a metric: the agent restarts its source or ends because of it.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connectors.records import Partition


@dataclass(slots=True)
class Progress:
    """Times are monotonic seconds. `last_healthy_s` is when work last advanced or there was none to do.

    `lag` is None while it is unknown. `queued` batches are with the model and not yet published.
    """

    clock: Callable[[], float] = time.monotonic
    last_poll_s: float | None = None
    last_progress_s: float | None = None
    last_healthy_s: float = field(init=False)
    lag: dict[Partition, int] | None = None
    queued_batches: int = 0
    queued_windows: int = 0
    waiting_for_store: bool = False

    def __post_init__(self) -> None:
        self.last_healthy_s = self.clock()

    @property
    def stuck_for_s(self) -> float:
        """How long there has been work, or it is not known whether there was, without any progress."""
        return self.clock() - self.last_healthy_s

    @property
    def caught_up(self) -> bool:
        """Everything is read and published; a model that hangs on the last batch has not caught up."""
        return self.total_lag == 0 and self.queued_batches == 0

    @property
    def total_lag(self) -> int | None:
        return None if self.lag is None else sum(self.lag.values())

    def polled(self) -> None:
        self.last_poll_s = self.clock()

    def advanced(self) -> None:
        self.last_progress_s = self.last_healthy_s = self.clock()

    def queued(self, *, batches: int, windows: int) -> None:
        self.queued_batches, self.queued_windows = batches, windows

    def lag_measured(self, lag: Mapping[Partition, int] | None) -> None:
        """None when the source could not say. Having nothing to do is healthy; so is waiting for the store."""
        self.lag = None if lag is None else dict(lag)
        if self.caught_up or self.waiting_for_store:
            self.last_healthy_s = self.clock()
