"""Who looks over the pipeline's shoulder: the live view, the page. Must return at once and never raise."""

from typing import Protocol

from agent.events.assemble import OutgoingEvent, WindowResult


class Observer(Protocol):
    def judged(self, glance: WindowResult) -> None: ...
    def published(self, sighting: OutgoingEvent) -> None: ...


class NullObserver:
    """Nobody looks."""

    def judged(self, glance: WindowResult) -> None: ...
    def published(self, sighting: OutgoingEvent) -> None: ...
