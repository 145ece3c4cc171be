"""Changes of state per minute of a day, and how many assets were in each state an hour ago; by event time. Pure."""

from collections import OrderedDict

from agent.page.api import Trend

_MINUTE_MS = 60_000
_DAY, _HOUR = 1_440, 60


class Trends:
    def __init__(self) -> None:
        self._changes: dict[int, int] = {}
        self._counts: OrderedDict[int, dict[str, int]] = OrderedDict()
        self._newest = 0

    def add_change(self, at_ms: int) -> None:
        minute = at_ms // _MINUTE_MS
        self._changes[minute] = self._changes.get(minute, 0) + 1

    def is_due(self, newest_ms: int) -> bool:
        """Whether a minute began since `note`."""
        return newest_ms // _MINUTE_MS > self._newest

    def note(self, newest_ms: int, counts: dict[str, int]) -> None:
        """How many assets are in each state, once a minute."""
        self._newest = newest_ms // _MINUTE_MS
        self._counts[self._newest] = counts
        while len(self._counts) > _HOUR + 1:
            self._counts.popitem(last=False)
        for minute in [one for one in self._changes if one <= self._newest - _DAY]:
            del self._changes[minute]

    def answer(self) -> Trend:
        """Without a count of an hour ago, the oldest one that is at least half as old stands for it."""
        if not self._newest:
            return Trend(end_ms=None, per_minute=[], hour_ago=None)
        first = max(min(self._changes, default=self._newest), self._newest - _DAY + 1)
        oldest = next(iter(self._counts))
        return Trend(
            end_ms=(self._newest + 1) * _MINUTE_MS,
            per_minute=[self._changes.get(minute, 0) for minute in range(min(first, self._newest), self._newest + 1)],
            hour_ago=self._counts[oldest] if self._newest - oldest >= _HOUR // 2 else None,
        )
