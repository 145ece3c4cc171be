"""Stops the agent when its own faults touch too many records, so that no topic is emptied into dead letters. Pure."""

import math
from collections import deque
from dataclasses import dataclass
from itertools import repeat


@dataclass(frozen=True, slots=True)
class BreakerLimits:
    """Trips when `share` of the latest `records` have failed; a run of failures counts before as many were seen."""

    records: int = 200
    share: float = 0.5

    @property
    def failures(self) -> int:
        return max(math.ceil(self.records * self.share), 1)


class Breaker:
    """Outcomes in log order, of records or of windows, over all partitions."""

    def __init__(self, limits: BreakerLimits) -> None:
        self.limits = limits
        self._failed: deque[bool] = deque(maxlen=limits.records)
        self._run = 0

    def passed(self, count: int) -> None:
        if count > 0:
            self._failed.extend(repeat(False, min(count, self.limits.records)))
            self._run = 0

    def failed(self) -> None:
        self._failed.append(True)
        self._run += 1

    @property
    def failures(self) -> int:
        """Among the latest ones."""
        return sum(self._failed)

    @property
    def tripped(self) -> bool:
        return self.failures >= self.limits.failures

    @property
    def suspicious(self) -> bool:
        """Nothing but failures for a while: what they were made of is not committed before something passes."""
        return self._run > self.limits.failures // 10
