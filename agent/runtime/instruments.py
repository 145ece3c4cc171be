"""What the work reports to and never reads: counters, status, a live view."""

from dataclasses import dataclass, field
from typing import Protocol

from agent.events.assemble import OutgoingEvent, WindowResult
from agent.health.counters import Counters
from agent.health.status import RuntimeStatus


class Observer(Protocol):
    """Callbacks of a live view; must not block or raise. `start` and `stop` enclose the run.

    A warning holds until the next one, or until `warned(None)`.
    """

    def start(self) -> None: ...
    def classified(self, result: WindowResult) -> None: ...
    def published(self, outgoing: OutgoingEvent) -> None: ...
    def warned(self, message: str | None) -> None: ...
    def stop(self) -> None: ...


class NullObserver:
    """Shows nothing."""

    def start(self) -> None: ...
    def classified(self, result: WindowResult) -> None: ...
    def published(self, outgoing: OutgoingEvent) -> None: ...
    def warned(self, message: str | None) -> None: ...
    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Instruments:
    counters: Counters = field(default_factory=Counters)
    status: RuntimeStatus = field(default_factory=RuntimeStatus)
    observer: Observer = field(default_factory=NullObserver)
