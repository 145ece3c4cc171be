"""Slow and many connections: each has a deadline, all together a limit, and a probe is answered in between."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent.web.connections import LimitedConfig
from agent.web.server import listen, make_app, serve

PROBE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def running(size: int = 2) -> AsyncIterator[int]:
    async def answer(_: Request) -> Response:
        return Response(b"x" * size)

    listener = listen("127.0.0.1", 0)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(serve(make_app([Route("/livez", answer)]), listener))
        yield listener.getsockname()[1]
        task.cancel()


async def probe(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(PROBE)
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the server ends the connection, in one way or the other."""
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), 20)
    return True


@pytest.mark.parametrize("beginning", [b"", b"GET /livez HT", PROBE[:-2]])
async def test_a_head_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch, beginning: bytes) -> None:
    monkeypatch.setattr(LimitedConfig, "head_s", 0.2)
    async with running() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(beginning)
        assert await ended(reader)
        writer.close()


async def test_a_byte_now_and_then_does_not_extend_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitedConfig, "head_s", 0.5)
    async with running() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def drip() -> None:
            with contextlib.suppress(ConnectionError):
                for byte in b"GET /livez HTTP/1.1\r\nX: " + b"a" * 10_000:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert await ended(reader)
        dripping.cancel()
        writer.close()


async def test_the_second_request_of_a_connection_has_a_deadline_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitedConfig, "head_s", 0.3)
    async with running() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.write(b"GET /liv")
        assert await ended(reader)
        writer.close()


async def test_an_answer_that_nobody_reads_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitedConfig, "request_s", 0.3)
    async with running(size=64 << 20) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(PROBE)
        await asyncio.sleep(1)  # reading nothing is what this is about
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(64 << 20)
        writer.close()


async def test_many_idle_connections_make_room_for_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitedConfig, "max_connections", 8)
    async with running() as port:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        for _ in range(5):
            assert (await probe(port)).startswith(b"HTTP/1.1 200")
        open_still = [reader for reader, _ in idle if not reader.at_eof() and reader.exception() is None]
        assert len(open_still) <= 8
        for _, writer in idle:
            writer.close()
