"""How long work reports its progress to its caller. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` steps of one named stage; 0 where the total is not known."""

    stage: str
    done: int
    total: int
    figures: Mapping[str, float] = field(default_factory=dict)
    """the latest loss, accuracy …"""
    detail: str = ""
    """the step that was just done"""


ProgressCallback = Callable[[Progress], None]
"""Called from the fitting thread. It may raise KeyboardInterrupt: fits that can keep their best so far do so."""


class DeferredInterrupt:
    """A callback for short work that must not be lost: a KeyboardInterrupt sets `asked` instead of being raised."""

    def __init__(self, progress: ProgressCallback) -> None:
        self._progress = progress
        self.asked = False

    def __call__(self, progress: Progress) -> None:
        try:
            self._progress(progress)
        except KeyboardInterrupt:
            self.asked = True


def silent(progress: Progress) -> None:
    """The callback that does nothing."""
