"""How a run begins and ends: background tasks, timeouts of shutdown, signals, garbage collection."""

import asyncio
import gc
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import structlog

from agent.errors import BreakerTripped, SettingsError
from anchormoe.errors import DataError, ModelError
from connectors.errors import ConnectorError

log = structlog.get_logger()

Result = TypeVar("Result")

_EXPECTED = (SettingsError, BreakerTripped, ConnectorError, ModelError, DataError)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_NEW_OBJECTS = 50_000
"""Net new objects before the garbage collector runs. A batch has thousands, all freed by reference counting."""


async def run_with_helpers(work: Coroutine[Any, Any, Result], helpers: Collection[Coroutine[Any, Any, None]]) -> Result:
    """Run a coroutine with background tasks; the first failure cancels the rest and is raised alone."""
    failure = None
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(helper) for helper in helpers]
            result = await work
            for task in tasks:
                task.cancel()
    except ExceptionGroup as failures:
        failure = first_failure(failures)
    # Raised out here, so that it keeps its own cause and context.
    if failure is not None:
        raise failure
    return result


def first_failure(failures: ExceptionGroup[Exception]) -> Exception:
    """The first error that users are meant to read, else the first of all. The others are logged, not lost."""
    errors = _flatten(failures)
    chosen = next((error for error in errors if isinstance(error, _EXPECTED)), errors[0])
    for other in errors:
        if other is not chosen:
            log.error("another failure at the same time", exc_info=other)
    return chosen


def _flatten(error: Exception) -> list[Exception]:
    if not isinstance(error, ExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in _flatten(inner)]


@asynccontextmanager
async def limit_time(seconds: float, what: str) -> AsyncIterator[None]:
    """Raises ConnectorError when the time is over; what was not committed is read again."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        reason = f"{what} took longer than {seconds:g} s; what was not committed is read again"
        raise ConnectorError(reason) from error


async def close_within(seconds: float, name: str, close: Callable[[], Awaitable[None]]) -> None:
    """A part that cannot be closed is logged and left: what matters was committed before, or is read again."""
    try:
        async with asyncio.timeout(seconds):
            await close()
    except (TimeoutError, ConnectorError, OSError) as error:
        log.warning("close failed or timed out", part=name, reason=str(error) or f"not closed after {seconds:g} s")


class ExitDeadline:
    """Ends the process when its end takes too long, whatever hangs: a file system, a driver, a thread, the event loop.

    `start` once the end has begun; `cancel` when nothing can hang any more.
    """

    def __init__(self, seconds: float, exit_now: Callable[[int], Any] = os._exit) -> None:
        self._seconds, self._exit_now = seconds, exit_now
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._seconds, self._exit)
            self._timer.daemon = True
            self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _exit(self) -> None:
        """Not by the logger or `sys.stderr`: what hangs may hold their locks."""
        hanging = ", ".join(sorted({each.name for each in threading.enumerate() if each is not self._timer}))
        line = (
            f"error: shutdown took longer than {self._seconds:g} s; the process ends now, "
            f"without waiting for {hanging}; what was not committed is read again\n"
        )
        os.write(2, line.encode("utf-8", "replace"))
        self._exit_now(1)


@contextmanager
def stop_on_signals(stop: asyncio.Event, deadline: ExitDeadline | None = None) -> Iterator[None]:
    """The first SIGINT or SIGTERM sets `stop`, the second cancels the task that entered this context.

    The deadline runs from the first one on.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def on_signal() -> None:
        if stop.is_set() and task is not None:
            task.cancel()
        stop.set()
        if deadline is not None:
            deadline.start()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


@contextmanager
def gc_tuning() -> Iterator[None]:
    """While streaming, skip what is loaded by now (torch alone has hundreds of thousands of objects) and run rarely.

    By default the collector runs every 700 new objects, which took more time than fetching the records.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
