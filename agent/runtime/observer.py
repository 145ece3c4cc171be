"""Who looks over the pipeline's shoulder: the live view, the page. Must return at once and never raise."""

from typing import Protocol

from agent.events.assemble import Glance, Sighting


class Observer(Protocol):
    def judged(self, glance: Glance) -> None: ...
    def published(self, sighting: Sighting) -> None: ...


class Unobserved:
    """Nobody looks."""

    def judged(self, glance: Glance) -> None: ...
    def published(self, sighting: Sighting) -> None: ...
