"""The page's server seen from outside: a process, its gauges, and plain clients of its streams."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx


@dataclass(slots=True)
class ServerProcess:
    process: subprocess.Popen[str]
    url: str

    @classmethod
    def start(cls, **options: int) -> "ServerProcess":
        arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "tests.bench.page.server", *arguments]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        while not (line := process.stdout.readline()).startswith("http"):
            assert line, "the server ended"
        return cls(process, line.strip())

    def ask(self, what: str = "gauges") -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        while not (line := self.process.stdout.readline()).startswith("{"):
            assert line, "the server ended"
        return dict(json.loads(line))

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)


@dataclass(slots=True)
class Stream:
    """Bytes of a stream, and since when."""

    bytes: int = 0
    since_s: float = 0.0

    @property
    def kb_per_s(self) -> float:
        return self.bytes / 1000 / (time.monotonic() - self.since_s)


@asynccontextmanager
async def streams(url: str, count: int, asset: str | None = None) -> AsyncIterator[list[Stream]]:
    """Clients with different sessions: each address of the loopback network has streams of its own."""
    found = [Stream() for _ in range(count)]
    tasks = [asyncio.create_task(_read(url, one, number, asset)) for number, one in enumerate(found)]
    try:
        async with asyncio.timeout(30):
            while not all(one.bytes for one in found):  # noqa: ASYNC110  # what is waited for has no event
                await asyncio.sleep(0.05)
        yield found
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(url: str, stream: Stream, number: int, asset: str | None) -> None:
    transport = httpx.AsyncHTTPTransport(local_address=f"127.0.0.{2 + number}")
    async with httpx.AsyncClient(base_url=url, transport=transport, trust_env=False, timeout=None) as client:
        after = (await client.get("/api/fleet")).json()["seq"]
        query = {"after": str(after)} | ({} if asset is None else {"asset": asset})
        async with client.stream("GET", "/api/stream", params=query) as answer:
            async for part in answer.aiter_raw():
                if not stream.bytes:
                    stream.since_s = time.monotonic()
                stream.bytes += len(part)
