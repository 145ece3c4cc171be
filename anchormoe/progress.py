"""How a long fit tells its caller where it stands. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` steps of one named stage; `figures` are the latest numbers (loss, accuracy …)."""

    stage: str
    done: int
    total: int
    figures: Mapping[str, float] = field(default_factory=dict)


ProgressCallback = Callable[[Progress], None]
"""Called from the fitting thread. It may raise KeyboardInterrupt: fits that can keep the best so far do so."""


class DeferredInterrupt:
    """A callback for what is short and must not be lost: an interrupt waits in `asked` until it is over."""

    def __init__(self, progress: ProgressCallback) -> None:
        self._progress = progress
        self.asked = False

    def __call__(self, progress: Progress) -> None:
        try:
            self._progress(progress)
        except KeyboardInterrupt:
            self.asked = True


def silent(progress: Progress) -> None:
    """The callback of a caller who does not want to know."""
