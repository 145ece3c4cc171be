"""What the work reports to and never reads: counters, status, a live view."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from agent.dead_letters.letter import DeadLetter
from agent.events.outgoing import OutgoingEvent, WindowResult
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


class Observers:
    """Several live views as one, and who wants to see dead letters; more may be added before the run."""

    def __init__(self, *views: Observer) -> None:
        self.views = list(views)
        self.letters: list[Callable[[DeadLetter], None]] = []

    def rejected(self, letter: DeadLetter) -> None:
        for see in self.letters:
            see(letter)

    def start(self) -> None:
        for view in self.views:
            view.start()

    def classified(self, result: WindowResult) -> None:
        for view in self.views:
            view.classified(result)

    def published(self, outgoing: OutgoingEvent) -> None:
        for view in self.views:
            view.published(outgoing)

    def warned(self, message: str | None) -> None:
        for view in self.views:
            view.warned(message)

    def stop(self) -> None:
        for view in self.views:
            view.stop()


@dataclass(frozen=True, slots=True)
class Instruments:
    """`rejected` gets every dead letter that was published; like the observer it must not block or raise."""

    counters: Counters = field(default_factory=Counters)
    status: RuntimeStatus = field(default_factory=RuntimeStatus)
    observer: Observer = field(default_factory=NullObserver)
    rejected: Callable[[DeadLetter], None] = lambda letter: None
