"""Which model is active in a group, by the end of the window: the configured one, then those that were activated."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from agent.models.activations import CONFIGURED, Activation, positions_in_force
from agent.models.classifier import ModelName, WindowClassifier
from agent.models.normal_values import NormalValues
from anchormoe.windows import Index

if TYPE_CHECKING:
    from anchormoe.profiles.examples import ExampleIndex


@dataclass(frozen=True, slots=True, eq=False)
class ActiveModel:
    """A loaded model and the name that events give it; the channels' units and normal values; the experts' readable
    names by their internal ones; the search for similar TRAIN segments. Equal only to itself."""

    classifier: WindowClassifier
    name: ModelName
    units: tuple[str, ...] = ()
    normal: NormalValues | None = None
    expert_names: Mapping[str, str] = field(default_factory=dict)
    examples: "ExampleIndex | None" = None


LoadInBackground = Callable[[Activation], "Future[ActiveModel | None]"]
"""Starts to load and check a bundle in another thread; the result is None when the bundle is refused."""


class ScheduledModel:
    """An activation and its model, which is loaded on demand and may be unloaded again."""

    def __init__(self, activation: Activation, load: LoadInBackground) -> None:
        self.activation = activation
        self._load = load
        self._loaded: Future[ActiveModel | None] | None = None
        self._requested = False
        self._lock = Lock()  # the event loop and the model thread may request it at the same time

    def load(self) -> "Future[ActiveModel | None]":
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load(self.activation)
            self._requested = True
            return self._loaded

    def forget_refusal(self) -> None:
        """The next request tries a refused bundle again: it may have been copied, or its share mounted, meanwhile."""
        with self._lock:
            tried = self._loaded
            if tried is not None and tried.done() and not tried.exception() and tried.result() is None:
                self._loaded = None

    def peek(self) -> ActiveModel | None:
        """The model if it is loaded and accepted; neither loads nor waits."""
        tried = self._loaded
        return tried.result() if tried is not None and tried.done() and not tried.exception() else None

    def unload_if_unused(self) -> bool:
        """True when it was loaded and nobody has requested it since the last call. A later request loads it again."""
        with self._lock:
            unused, self._requested = self._loaded is not None and not self._requested, False
            self._loaded = None if unused else self._loaded
            return unused


class ModelSchedule:
    """The activations of one group in order of time. The event loop adds to it, the model thread reads it.

    `newest_ns` is the latest window end for which a model was requested.
    """

    def __init__(self) -> None:
        # Replaced as a whole, so that the other thread always sees a complete one.
        self._line: tuple[ScheduledModel, ...] = ()
        self.newest_ns = -1

    def __len__(self) -> int:
        return len(self._line)

    def add(self, activation: Activation, load: LoadInBackground) -> None:
        """Replaces an earlier activation with the same effective end."""
        others = [each for each in self._line if each.activation.effective_ns != activation.effective_ns]
        line = [*others, ScheduledModel(activation, load)]
        self._line = tuple(sorted(line, key=lambda each: each.activation.effective_ns))

    def active_models(self, ends_ns: Index) -> "list[ActiveModel | None]":
        """The model for each window end, None for the configured one.

        Waits for a bundle that is still being loaded: a window never gets another model to save time.
        """
        line = self._line
        if not len(ends_ns):
            return []
        self.newest_ns = max(self.newest_ns, int(ends_ns.max()))
        positions = positions_in_force([each.activation.effective_ns for each in line], ends_ns)
        models = {position: _accepted(line, position) for position in np.unique(positions).tolist()}
        return [models[position] for position in positions.tolist()]

    def loaded_at_newest(self) -> "ActiveModel | None":
        """The model of the newest window end so far, None for the configured one."""
        line = [each for each in self._line if each.activation.effective_ns <= self.newest_ns]
        return next((model for each in reversed(line) if (model := each.peek()) is not None), None)

    def from_now_on(self, now_ns: int) -> "list[ScheduledModel]":
        """The one in force at `now_ns` and all later ones."""
        line = self._line
        first = int(positions_in_force([each.activation.effective_ns for each in line], np.array([now_ns]))[0])
        return list(line[max(first, 0) :])

    def pending(self) -> "list[ScheduledModel]":
        """Those that no window has asked for yet: whether they are refused has no effect so far."""
        return [each for each in self._line if each.activation.effective_ns > self.newest_ns]

    def unload_unused(self, now_ns: int) -> list[Activation]:
        """Unload models that are no longer active and that nobody has requested since the last call."""
        current = {id(each) for each in self.from_now_on(now_ns)}
        return [each.activation for each in self._line if id(each) not in current and each.unload_if_unused()]


def _accepted(line: tuple[ScheduledModel, ...], position: int) -> ActiveModel | None:
    """The model at this position, or the nearest earlier one that was not refused."""
    while position > CONFIGURED:
        model = line[position].load().result()
        if model is not None:
            return model
        position -= 1
    return None
