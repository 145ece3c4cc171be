"""Classifies due windows of many batches together, each by the model that is active at its end. No I/O, no clock.

A window whose classification raises is `unknown` with the reason `internal`, and carries what was raised.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agent.events.columns import PreparedWindow
from agent.events.group import GroupRuntime
from agent.models.classifier import HISTORY_LOST, INTERNAL, UNKNOWN, Classification
from agent.models.schedule import ActiveModel
from agent.windows.ingest import DueWindow
from connectors.failpoints import IN_MODEL, raise_armed

Progressed = Callable[[], None]
"""Called from time to time while a model works: a backlog on a slow machine takes long and is not stuck."""

_WINDOWS_PER_CALL = 64
"""Windows per call of a model: enough to be fast, few enough that progress is reported often."""


@dataclass(frozen=True, slots=True)
class ScoredWindow:
    """A due window, the model that is active at its end, and what that model made of it.

    `error` is what was raised instead; then the window is `unknown`.
    """

    window: DueWindow
    model: ActiveModel
    classified: Classification
    error: Exception | None = None
    prepared: PreparedWindow | None = None
    """what its event needs, where the events of many windows were prepared together"""


ScoredBatches = list[list[ScoredWindow]]
"""The classified windows of each of several batches."""


def classify_batches(
    batches: Sequence[tuple[GroupRuntime, Sequence[DueWindow]]], progressed: Progressed = lambda: None
) -> ScoredBatches:
    """Every window by the model that is active at its end; each model gets the windows of all batches together."""
    models = [group.active_models(np.array([one.end for one in due], np.int64)) for group, due in batches]
    by_model: dict[ActiveModel, list[DueWindow]] = {}
    for (_, due), own in zip(batches, models, strict=True):
        for window, model in zip(due, own, strict=True):
            by_model.setdefault(model, []).append(window)
    scored = {model: _classify(model, windows, progressed) for model, windows in by_model.items()}
    return [[next(scored[model]) for model in own] for own in models]


def _classify(model: ActiveModel, windows: Sequence[DueWindow], progressed: Progressed) -> Iterator[ScoredWindow]:
    """In the order of the windows."""
    found: list[ScoredWindow] = []
    for low in range(0, len(windows), _WINDOWS_PER_CALL):
        found += _classify_together(model, windows[low : low + _WINDOWS_PER_CALL])
        progressed()
    return iter(found)


def _classify_together(model: ActiveModel, windows: Sequence[DueWindow]) -> list[ScoredWindow]:
    """Where the model raises, in halves, until those that it raises for are alone: others are not affected."""
    try:
        # Contiguous, as everywhere else a model is asked: in the ring buffers a step's channels are side by side.
        values = np.ascontiguousarray(np.stack([window.values for window in windows]))  # (B, C, T)
        raise_armed(IN_MODEL, together=len(windows))
        found = model.classifier.classify(values)
        return [
            ScoredWindow(window, model, _unless_lost(one, window)) for one, window in zip(found, windows, strict=True)
        ]
    except Exception as error:  # noqa: BLE001  # the last door: see agent.runtime.last_door
        if len(windows) == 1:
            return [ScoredWindow(windows[0], model, without_model(model, windows[0]), error)]
    half = len(windows) // 2
    return _classify_together(model, windows[:half]) + _classify_together(model, windows[half:])


def without_model(model: ActiveModel, window: DueWindow) -> Classification:
    """`unknown`, for a window that the model, or what follows from it, raises for."""
    try:
        return _unless_lost(model.classifier.without_model(window.values, INTERNAL), window)
    except Exception:  # noqa: BLE001  # what raised may be the coverage itself
        return Classification(model.classifier.classes, UNKNOWN, INTERNAL, 0.0, (), None, -1)


def _unless_lost(classified: Classification, window: DueWindow) -> Classification:
    """A window that reaches into lost history is `unknown`, whatever the rest of it looks like."""
    if window.complete:
        return classified
    return replace(classified, state=UNKNOWN, reason=HISTORY_LOST, prediction=None, at=-1)
