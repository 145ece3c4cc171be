"""Who speaks in a group: the configured model, and after it those that were activated, by the window's end."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock

import numpy as np

from agent.events.payloads import ModelName
from agent.models.activations import CONFIGURED, Activation, places
from agent.models.classifier import WindowClassifier
from anchormoe.windows import Index


@dataclass(frozen=True, slots=True, eq=False)
class ActiveModel:
    """A model with the rules around it and the name under which it speaks."""

    judge: WindowClassifier
    model: ModelName


Loading = Callable[[Activation], "Future[ActiveModel | None]"]
"""Begins to load and check a bundle in another thread; the result is None when it is refused."""


class ScheduledModel:
    """An activation and its model, which is loaded when it is wanted and may be put away again."""

    def __init__(self, activation: Activation, loading: Loading) -> None:
        self.activation = activation
        self._loading = loading
        self._loaded: Future[ActiveModel | None] | None = None
        self._wanted = False
        self._turn = Lock()  # the event loop and the model's thread may want it at the same moment

    def load(self) -> "Future[ActiveModel | None]":
        with self._turn:
            if self._loaded is None:
                self._loaded = self._loading(self.activation)
            self._wanted = True
            return self._loaded

    def put_away_if_unused(self) -> bool:
        """True when nobody has asked since the last time this was tried; whoever asks later loads it again."""
        with self._turn:
            unused, self._wanted = self._loaded is not None and not self._wanted, False
            self._loaded = None if unused else self._loaded
            return unused


class ModelSchedule:
    """The activations of one group in order. The event loop adds, the model's thread asks.

    `newest_ns` is the greatest window end that anybody has asked for.
    """

    def __init__(self) -> None:
        self._line: tuple[
            ScheduledModel, ...
        ] = ()  # replaced as a whole, so that a reader in another thread sees one line
        self.newest_ns = -1

    def __len__(self) -> int:
        return len(self._line)

    def add(self, activation: Activation, loading: Loading) -> None:
        """Of two activations for one end the later one counts."""
        others = [each for each in self._line if each.activation.effective_ns != activation.effective_ns]
        line = [*others, ScheduledModel(activation, loading)]
        self._line = tuple(sorted(line, key=lambda each: each.activation.effective_ns))

    def speakers(self, ends_ns: Index) -> "list[ActiveModel | None]":
        """For each window the one to judge it, None for the configured one.

        Waits for a bundle that is still being checked: no window is judged by the wrong model to save time.
        """
        line = self._line
        if not len(ends_ns):
            return []
        self.newest_ns = max(self.newest_ns, int(ends_ns.max()))
        chosen = places([each.activation.effective_ns for each in line], ends_ns)
        found = {place: _accepted(line, place) for place in np.unique(chosen).tolist()}
        return [found[place] for place in chosen.tolist()]

    def from_now_on(self, now_ns: int) -> "list[ScheduledModel]":
        """The one in force at a time and all that follow."""
        line = self._line
        first = int(places([each.activation.effective_ns for each in line], np.array([now_ns]))[0])
        return list(line[max(first, 0) :])

    def put_away_unused(self, now_ns: int) -> list[Activation]:
        """Models that were followed by another and that nobody has asked for since the last call."""
        kept = {id(each) for each in self.from_now_on(now_ns)}
        return [each.activation for each in self._line if id(each) not in kept and each.put_away_if_unused()]


def _accepted(line: tuple[ScheduledModel, ...], place: int) -> ActiveModel | None:
    """The model at this place, or the nearest one before it that was not refused."""
    while place > CONFIGURED:
        speaker = line[place].load().result()
        if speaker is not None:
            return speaker
        place -= 1
    return None
