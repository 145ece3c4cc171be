"""A thread for the model, or for its events: calls in order, and a close that does not wait for a call that hangs."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

Answer = TypeVar("Answer")
_POLL_EVERY_S = 0.002


class ModelThread:
    """A daemon, unlike the threads of an executor: the process can exit although a call never returns."""

    def __init__(self, name: str = "model") -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], Answer]) -> "Future[Answer]":
        future: Future[Answer] = Future()
        self._calls.put(lambda: self._run(call, future))
        return future

    async def close(self) -> None:
        """Waits for the running call and cancels those behind it. Give it a timeout."""
        self._closed = True
        self._calls.put(None)
        while self._thread.is_alive():  # noqa: ASYNC110  # a thread cannot be awaited
            await asyncio.sleep(_POLL_EVERY_S)

    def _run(self, call: Callable[[], Answer], future: "Future[Answer]") -> None:
        if self._closed or not future.set_running_or_notify_cancel():
            future.cancel()
            return
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001  # raised again where the result is awaited
            future.set_exception(error)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
