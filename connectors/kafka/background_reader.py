"""A `TopicReader` in a thread of its own: it leaves its group in order, however its user stops reading.

aiokafka needs its own tasks to commit and to leave the group. In the user's event loop they are cancelled when
`asyncio.run` ends right after a `break`; leaving would then wait for an answer that no task reads (40 s), and the
member would block its group until the session times out. The thread also sends heartbeats while the user blocks the
loop.
"""

import asyncio
import logging
import threading
import weakref
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.reader import ReadOptions, TopicReader
from connectors.records import Batch, Partition

_LEAVE_TIMEOUT_S = 5.0
_CLOSE_S, _LEAVE_S = 0.6, 0.75
_TLS_LINGER_S = 0.25
"""aiokafka does not wait until the other side has closed TLS; a loop that ends before leaves the socket open."""

Result = TypeVar("Result")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """The first `looked_back` records were read only because of `ReadOptions.look_back`."""

    batch: Batch
    looked_back: int


class BackgroundReader:
    """The part that the user holds. Once it is garbage, or the interpreter exits, the thread leaves the group."""

    def __init__(self, cluster: Cluster, options: ReadOptions) -> None:
        tls = cluster.protocol.endswith("SSL")
        self._worker = _Worker(TopicReader(cluster, options), linger_s=_TLS_LINGER_S if tls else 0.0)
        self._finalizer = weakref.finalize(self, self._worker.join)

    async def start(self) -> None:
        """Raises ConnectorError; `close` must be called in any case."""
        self._worker.start_thread()
        await self._worker.call(self._worker.reader.start())

    async def poll(self, *, max_records: int, timeout_s: float) -> list[ReadBatch]:
        """What is there, or nothing after the time-out. Raises ConnectorError."""
        return await self._worker.call(self._worker.poll(max_records, timeout_s))

    def handled(self, partition: Partition, offset: int) -> None:
        """The record and all before it need not be read again by this group."""
        self._worker.call_soon(self._worker.reader.handled, partition, offset)

    async def commit(self) -> None:
        await self._worker.call(self._worker.reader.commit())

    async def close(self) -> None:
        """Commits what was handled and leaves the group, within a second, whatever the broker does.

        When cancelled, the finalizer waits for the thread instead.
        """
        await self._worker.stop()
        self._finalizer.detach()


class _Worker:
    """The part that the thread holds; it does not refer to the `BackgroundReader`, which must become garbage."""

    def __init__(self, reader: TopicReader, *, linger_s: float) -> None:
        self.reader, self._linger_s = reader, linger_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-reader", daemon=True)
        self._stopped: Future[None] = Future()

    def start_thread(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread.start()

    async def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run in the thread. Cancelling the caller cancels the work."""
        assert self._loop is not None
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def call_soon(self, function: Any, *arguments: Any) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(function, *arguments)

    async def poll(self, max_records: int, timeout_s: float) -> list[ReadBatch]:
        batches = await self.reader.poll(max_records=max_records, timeout_s=timeout_s)
        return [ReadBatch(batch, self._looked_back(batch)) for batch in batches]

    def _looked_back(self, batch: Batch) -> int:
        return sum(not self.reader.is_new(batch.partition, record.offset) for record in batch.records)

    async def stop(self) -> None:
        """Raises what closing the reader raised. A thread that does not end in time is a daemon and ends later."""
        if self._loop is None:
            return
        self._tell_to_stop()
        ended, _ = await asyncio.wait([asyncio.wrap_future(self._stopped)], timeout=_LEAVE_S + self._linger_s)
        for one in ended:
            one.result()
            self._thread.join()

    def join(self) -> None:
        """Blocks until the thread has left the group, but not for long."""
        if self._loop is not None:
            self._tell_to_stop()
            self._thread.join(_LEAVE_TIMEOUT_S)

    def _tell_to_stop(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the thread has closed its loop already
                self._loop.call_soon_threadsafe(self._stop.set)

    def _run(self) -> None:
        assert self._loop is not None
        loop = self._loop
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._serve())
        except Exception as error:  # noqa: BLE001  # raised again where the reader is closed
            self._stopped.set_exception(error)
        else:
            self._stopped.set_result(None)

    async def _serve(self) -> None:
        await self._stop.wait()
        try:
            await self.reader.close(timeout_s=_CLOSE_S)
        except ConnectorError as error:
            _log.warning("left without a commit, some records may be read again: %s", error)
        await asyncio.sleep(self._linger_s)
