"""Whether the worker gets on: inputs without a hole, and never for long something to do and nothing done. Pure."""

from collections.abc import Hashable, Mapping

from connectors.errors import ConnectorError


class InputsSkipped(ConnectorError):
    """Inputs were passed over. Nothing behind them may be taken: the worker ends and begins anew from the commit."""


class Stalled(ConnectorError):
    """There is something to do, and for too long nothing was done: the worker ends and begins anew."""


class Sequence:
    """The next offset of every partition that is here."""

    def __init__(self) -> None:
        self.next: dict[Hashable, int] = {}

    def begin(self, offsets: Mapping[Hashable, int]) -> None:
        self.next = dict(offsets)

    def hole(self, place: Hashable, offset: int) -> range:
        """Offsets that nobody has seen, if this one comes now; all of them where nothing was expected from there."""
        return range(self.next.get(place, -1), offset)

    def taken(self, place: Hashable, offset: int) -> None:
        self.next[place] = max(self.next.get(place, 0), offset + 1)


class Patience:
    """How long a worker with something to do has shown the same pulse."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s, self.stuck_for_s = limit_s, 0.0
        self._pulse: object = None
        self._since_s: float | None = None

    def look(self, now_s: float, pulse: object, *, busy: bool) -> bool:
        """Whether it is over. `pulse`: anything that differs after the least progress."""
        if not busy or pulse != self._pulse or self._since_s is None:
            self._pulse, self._since_s = pulse, now_s
        self.stuck_for_s = now_s - self._since_s
        return self.stuck_for_s > self.limit_s
