"""Runs calls that may hang, on a file system that does not answer, in threads that never keep the process alive."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def start_in_daemon_thread(
    call: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> "Future[Result]":
    """A thread for this call alone. Unlike the threads of an executor, nobody waits for it when the process exits."""
    future: Future[Result] = Future()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(call(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # raised again where the result is awaited
            future.set_exception(error)

    threading.Thread(target=work, name=getattr(call, "__qualname__", "call"), daemon=True).start()
    return future


async def run_in_daemon_thread(
    call: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Like `asyncio.to_thread`. Cancelled, it leaves the thread to itself; the call goes on there."""
    return await asyncio.wrap_future(start_in_daemon_thread(call, *args, **kwargs))
