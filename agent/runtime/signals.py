"""SIGINT and SIGTERM: the first asks for an orderly end, the second ends at once."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signals(stop: asyncio.Event) -> Iterator[None]:
    """Must be entered in the task that is to be cancelled by the second signal."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def asked() -> None:
        if stop.is_set() and task is not None:
            task.cancel()
        stop.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, asked)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
