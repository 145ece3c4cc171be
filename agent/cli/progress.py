"""Shows a long fit on stderr: bars on a terminal, lines elsewhere; Ctrl-C asks it to finish early."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from anchormoe.progress import Progress, ProgressCallback

WHOLE = "training"
SILENCE_S = 10.0
"""Where there is no terminal, a stage that goes on is told again after so long."""


class _Interrupt:
    """The first Ctrl-C is delivered at the next progress report, where a fit can keep its best; the second at once."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        print("stopping after this step; Ctrl-C again to give up", file=sys.stderr)

    def check(self) -> None:
        if self.asked:
            self.asked = False
            raise KeyboardInterrupt


@contextmanager
def shown_progress(*, quiet: bool = False) -> Iterator[ProgressCallback]:
    """A callback for the fits; the signal handler is the old one again afterwards."""
    interrupt = _Interrupt()
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with _display(quiet=quiet) as show:

            def report(progress: Progress) -> None:
                show(progress)
                interrupt.check()

            yield report
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _display(*, quiet: bool) -> Iterator[ProgressCallback]:
    console = Console(stderr=True)
    if quiet:
        yield lambda progress: None
    elif not console.is_terminal:
        yield plain_lines()
    else:
        with Bar(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), TimeElapsedColumn(),
            TimeRemainingColumn(), TextColumn("{task.fields[figures]}"), console=console, transient=True,
        ) as bar:  # fmt: skip
            bar.add_task(
                WHOLE, total=None, count="", figures=""
            )  # it moves by itself, also where nothing can be counted
            yield _bar_updater(bar)


def _bar_updater(bar: Bar) -> ProgressCallback:
    tasks: dict[str, TaskID] = {}

    def update(progress: Progress) -> None:
        if progress.stage not in tasks:
            tasks[progress.stage] = bar.add_task(progress.stage, total=progress.total, count="", figures="")
        bar.update(
            tasks[progress.stage], completed=progress.done, total=progress.total,
            count=f"{progress.done:,}/{progress.total:,}", figures=_figures(progress),
        )  # fmt: skip

    return update


def plain_lines(clock: Callable[[], float] = time.monotonic) -> ProgressCallback:
    """A line when a stage ends, and now and then while it goes on."""
    told = clock()

    def tell(progress: Progress) -> None:
        nonlocal told
        over = progress.done >= progress.total
        if over or clock() - told >= SILENCE_S:
            told = clock()
            how_far = "done" if over else f"{progress.done:,} of {progress.total:,}"
            print(f"{progress.stage}: {how_far} {_figures(progress)}".rstrip(), file=sys.stderr, flush=True)

    return tell


def _figures(progress: Progress) -> str:
    shown: dict[str, Any] = {name.replace("_", " "): value for name, value in progress.figures.items()}
    return "  ".join(f"{name} {value:.3f}" for name, value in shown.items())
