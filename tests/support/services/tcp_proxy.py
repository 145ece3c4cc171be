"""A TCP proxy for tests: the connections between an agent and a server are cut, hang or become slow."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Literal

Mode = Literal["open", "refuse", "hang", "slow"]
_SLOW_S = 0.3
_CHUNK = 1 << 16


class TcpProxy:
    """Listens on a port of its own, in a thread of its own, and forwards to an address that may change.

    `refuse`: connections are closed and new ones closed at once. `hang`: they stay open and carry nothing.
    `slow`: every chunk waits a while.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._mode: Mode = "open"
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def set_mode(self, mode: Mode) -> None:
        self._call(self._change(mode))

    def close(self) -> None:
        self._server.close()
        self._call(self._change("refuse"))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _change(self, mode: Mode) -> None:
        self._mode = mode
        if mode == "refuse":
            for writer in list(self._writers):
                writer.transport.abort()
        if mode == "hang":
            self._flowing.clear()
        else:
            self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "refuse":
            writer.transport.abort()
            return
        try:
            to_reader, to_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, to_writer}
        pumps = [asyncio.create_task(self._pump(reader, to_writer)), asyncio.create_task(self._pump(to_reader, writer))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)  # either end closes both
        finally:
            self._writers -= {writer, to_writer}
            for pump in pumps:
                pump.cancel()
            for each in (writer, to_writer):
                each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                await self._flowing.wait()
                if self._mode == "slow":
                    await asyncio.sleep(_SLOW_S)
                writer.write(chunk)
                await writer.drain()
