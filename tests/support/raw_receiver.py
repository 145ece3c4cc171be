"""A receiver that answers with any bytes, as one that is misconfigured, overloaded or not HTTP at all."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import cast

CHUNK = b"x" * (1 << 20)
Respond = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RawReceiver:
    """`requests`: the heads of all requests, as they came. `written`: bytes of answers that went out."""

    url: str = ""
    requests: list[bytes] = field(default_factory=list)
    written: int = 0

    @property
    def methods(self) -> list[str]:
        return [request.split(b" ", 1)[0].decode() for request in self.requests]


@asynccontextmanager
async def raw_receiver(respond: Respond) -> AsyncIterator[RawReceiver]:
    receiver, connections = RawReceiver(), set[asyncio.Task[None]]()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(cast("asyncio.Task[None]", asyncio.current_task()))
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            receiver.requests.append(await reader.readuntil(b"\r\n\r\n"))
            await respond(cast("asyncio.StreamWriter", _Counting(writer, receiver)))
        writer.close()
        with suppress(ConnectionError, asyncio.CancelledError):  # the test's end may come while it closes
            await writer.wait_closed()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hooks/T000/SECRETPATH"
        yield receiver
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections)


class _Counting:
    def __init__(self, writer: asyncio.StreamWriter, receiver: RawReceiver) -> None:
        self._writer, self._receiver = writer, receiver

    def write(self, data: bytes) -> None:
        self._writer.write(data)
        self._receiver.written += len(data)

    async def drain(self) -> None:
        await self._writer.drain()


def fixed(data: bytes) -> Respond:
    """The same bytes to every request, then the connection is closed."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return answer


def status(line: str, headers: str = "", body: bytes = b"") -> Respond:
    return fixed(f"HTTP/1.1 {line}\r\n{headers}\r\n".encode() + body)


async def hang(_: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def drip(writer: asyncio.StreamWriter) -> None:
    """A byte of a header every few milliseconds: something always arrives, but never an answer."""
    writer.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    for _ in range(3_000):
        writer.write(b"z")
        await writer.drain()
        await asyncio.sleep(0.01)


async def endless_error(writer: asyncio.StreamWriter) -> None:
    """An error page of 300 MB."""
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 314572800\r\n\r\n")
    for _ in range(300):
        writer.write(CHUNK)
        await writer.drain()


async def endless_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(1_000_000):
        writer.write(f"X-{number}: {'y' * 1000}\r\n".encode())
        await writer.drain()
