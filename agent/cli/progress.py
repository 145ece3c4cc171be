"""The progress display of every command: bars on a terminal's stderr, elsewhere lines or nothing."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from anchormoe.progress import Progress, ProgressCallback, silent

LINE_EVERY_S = 10.0
"""Where there is no terminal, a stage that goes on is reported this often."""


@contextmanager
def show_progress(stage: str, *, lines: bool = False, quiet: bool = False) -> Iterator[ProgressCallback]:
    """A callback that shows reports, with a bar for each stage; the bar of `stage` moves from the start.

    Without a terminal `lines` prints a line when a stage ends, and now and then before.
    """
    console = Console(stderr=True)
    if quiet or not (console.is_terminal or lines):
        yield silent
    elif not console.is_terminal:
        yield print_lines()
    else:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"))
        times = (TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.fields[figures]}"))
        with Bars(*columns, *times, console=console, transient=True) as bars:
            yield _update_bars(bars, stage)


@contextmanager
def count_progress(stage: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """The same for one stage that only counts: called with how much is done, and of how much (0: not known)."""
    with show_progress(stage, quiet=quiet) as show:
        yield lambda done, total: show(Progress(stage, done, total))


@contextmanager
def interrupt_at_report(progress: ProgressCallback) -> Iterator[ProgressCallback]:
    """Raises the first Ctrl-C from the next report, where a fit can keep its best so far; the second one at once."""
    interrupt = _Interrupt()
    before = signal.signal(signal.SIGINT, interrupt)

    def report(reported: Progress) -> None:
        progress(reported)
        interrupt.raise_pending()

    try:
        yield report
    finally:
        signal.signal(signal.SIGINT, before)


class _Interrupt:
    """A signal handler that remembers the first signal."""

    def __init__(self) -> None:
        self._pending = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._pending:
            raise KeyboardInterrupt
        self._pending = True
        print("stopping after this step; press Ctrl-C again to stop at once", file=sys.stderr)

    def raise_pending(self) -> None:
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt


def _update_bars(bars: Bars, stage: str) -> ProgressCallback:
    tasks: dict[str, TaskID] = {}

    def update(progress: Progress) -> None:
        total = progress.total or None
        if progress.stage not in tasks:
            tasks[progress.stage] = bars.add_task(progress.stage, total=total, count="", figures="")
        count = f"{progress.done:,}" + (f"/{progress.total:,}" if progress.total else "")
        bars.update(
            tasks[progress.stage], completed=progress.done, total=total, count=count, figures=_figures(progress)
        )

    # Without a total it pulses: a stage that reports nothing yet can be seen to be alive.
    tasks[stage] = bars.add_task(stage, total=None, count="", figures="")
    return update


def print_lines(clock: Callable[[], float] = time.monotonic) -> ProgressCallback:
    """A line when a stage ends, and every ten seconds while it goes on."""
    printed = clock()

    def report(progress: Progress) -> None:
        nonlocal printed
        finished = progress.done >= progress.total
        if finished or clock() - printed >= LINE_EVERY_S:
            printed = clock()
            state = "done" if finished else f"{progress.done:,} of {progress.total:,}"
            print(f"{progress.stage}: {state} {_figures(progress)}".rstrip(), file=sys.stderr, flush=True)

    return report


def _figures(progress: Progress) -> str:
    figures = [f"{name.replace('_', ' ')} {value:.3f}" for name, value in progress.figures.items()]
    return "  ".join(([progress.detail] if progress.detail else []) + figures)
