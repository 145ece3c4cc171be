"""Shows a long fit on stderr: a bar on a terminal, a line per stage elsewhere; Ctrl-C asks it to finish early."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from anchormoe.progress import Progress, ProgressCallback


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
        yield _plain_line
    else:
        with Bar(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"), console=console, transient=True,
        ) as bar:  # fmt: skip
            yield _bar_updater(bar)


def _bar_updater(bar: Bar) -> ProgressCallback:
    tasks: dict[str, TaskID] = {}

    def update(progress: Progress) -> None:
        if progress.stage not in tasks:
            tasks[progress.stage] = bar.add_task(progress.stage, total=progress.total, figures="")
        bar.update(tasks[progress.stage], completed=progress.done, total=progress.total, figures=_figures(progress))

    return update


def _plain_line(progress: Progress) -> None:
    if progress.done >= progress.total:
        print(f"{progress.stage}: done {_figures(progress)}".rstrip(), file=sys.stderr, flush=True)


def _figures(progress: Progress) -> str:
    shown: dict[str, Any] = {name.replace("_", " "): value for name, value in progress.figures.items()}
    return "  ".join(f"{name} {value:.3f}" for name, value in shown.items())
