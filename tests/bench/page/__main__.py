"""`python -m tests.bench.page [--out docs/results/page.md]`: every target of the operator page, as goal and result.

`--only memory` measures that one again, and replaces its row in the page. It needs no quiet machine; the others do.
Starts its own server with 10,000 assets of which a tenth changes every second, a Chromium, and a broker for time
travel. Takes about three minutes.
"""

import argparse
import asyncio
import os
import platform
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import httpx
from playwright.async_api import Browser

from tests.bench.page import in_browser
from tests.bench.page.in_browser import quantile
from tests.bench.page.outside import ServerProcess, streams
from tests.bench.page.server import FAST
from tests.bench.page.travel import rebuild_times
from tests.support.browser import launched

_HISTORY = 200_000
_VERSIONS = ("anchormoe-agent", "starlette", "uvicorn", "playwright")
_HEAD = """# What the operator page costs

`python -m tests.bench.page`: a page with 10,000 assets, of which a tenth gets another window every second (94 of 100
are normal), in a process of its own; a Chromium on the same machine; first pictures are the best of some cold loads.
The full history is of changes of state with evidence, no two of which have the same figures.
"""


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    goal: float
    result: float
    unit: str
    note: str = ""

    def __str__(self) -> str:
        met = "met" if self.result <= self.goal else "**missed**"
        return f"| {self.what} | ≤ {self.goal:g} {self.unit} | {self.result:.3g} {self.unit} | {met} | {self.note} |"


async def browser_rows(browser: Browser, url: str, seconds: float) -> list[Row]:
    first = await in_browser.first_pictures(browser, url, turns=5)
    plain = await in_browser.main_thread(browser, url, seconds=seconds, slower=1)
    slow = await in_browser.main_thread(browser, url, seconds=seconds, slower=4)
    seen = await in_browser.ages(browser, url, seconds=2 * seconds)
    return [
        Row("first contentful paint, cold", 400, first["paint"], "ms"),
        Row("first drawing of the fleet", 700, first["fleet"], "ms"),
        Row("files of the first load, as sent", 120, first["files"] / 1000, "kB"),
        Row("main thread at two updates a second", 10, 100 * plain["share"], "%", f"heap {plain['heap_mb']:.0f} MB"),
        Row("longest task of the main thread", 50, plain["longest"], "ms", f"{plain['long']:.0f} over 50 ms"),
        Row("main thread, four times slower processor", 40, 100 * slow["share"], "%"),
        Row("change to screen, median", 0.6, quantile(seen, 0.5), "s", f"{len(seen)} changes"),
        Row("change to screen, 99 of 100", 1.2, quantile(seen, 0.99), "s"),
    ]


async def line_rows(url: str, seconds: float) -> list[Row]:
    async with streams(url, 1) as (fleet,):
        await asyncio.sleep(seconds)
        fleet_kb = fleet.kb_per_s
    async with streams(url, 1, FAST) as (asset,):
        await asyncio.sleep(1)
        begun = asset.bytes
        await asyncio.sleep(seconds)
        asset_kb = (asset.bytes - begun) / 1000 / seconds
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        raw = await client.get("/api/fleet", headers={"accept-encoding": "identity"})
        async with client.stream("GET", "/api/fleet", headers={"accept-encoding": "gzip"}) as answer:
            packed = sum([len(part) async for part in answer.aiter_raw()])
    return [
        Row("stream of the fleet", 20, fleet_kb, "kB/s"),
        Row("stream with an open asset, 8 channels at 100 Hz", 60, asset_kb, "kB/s"),
        Row("snapshot of 10,000 assets", 400, len(raw.content) / 1000, "kB"),
        Row("the same, compressed", 80, packed / 1000, "kB"),
    ]


async def server_rows(server: ServerProcess, seconds: float) -> list[Row]:
    """Turns with and without clients after each other: the machine has other work, too."""
    shares: dict[int, list[float]] = {0: [], 10: [], 50: []}
    late: dict[int, list[float]] = {0: [], 10: [], 50: []}
    for _ in range(2):
        for count in shares:
            async with streams(server.url, count):
                before = server.ask()
                await asyncio.sleep(seconds / 2)
                after = server.ask()
            shares[count].append((after["cpu_s"] - before["cpu_s"]) / (after["at_s"] - before["at_s"]))
            late[count].append(after["late_p99_s"])
    alone, ten = min(shares[0]), min(shares[10])
    ratio = min(late[50]) / max(min(late[0]), 1e-4)
    note = f"{1000 * min(late[0]):.2f} ms without, {1000 * min(late[50]):.2f} ms with"
    return [
        Row("processor for 10 clients", 2, 100 * max(ten - alone, 0), "% of a core", f"{100 * alone:.1f} % without"),
        Row("loop delay (99 of 100) with 50 clients, against none", 1.1, ratio, "times", note),
    ]


async def history_rows(wanted: int) -> list[Row]:
    server = ServerProcess.start(events=wanted)
    try:
        async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
            reach = (await client.get("/api/fleet")).json()["reach"]
        gauges = server.ask()
        rss = gauges["rss_mb"]
        note = f"{reach['events']:,} of {wanted:,} events; {gauges['program_mb']:.0f} MB without both"
        return [Row("memory with 10,000 assets and a full history", 300, rss, "MB", note)]
    finally:
        server.close()


async def stop_rows(server: ServerProcess) -> list[Row]:
    async with streams(server.url, 20):
        await asyncio.sleep(0.5)
        found = await asyncio.to_thread(server.ask, "stop")
    return [Row("stop with 20 open streams", 0.3, found["stop_s"], "s", f"{found['clients']:.0f} were open")]


async def travel_rows() -> list[Row]:
    took, identical = await rebuild_times()
    note = f"{identical} of {len(took)} identical to what was published; first {took[0]:.2f} s"
    return [Row("judge a window again, one partition of 50,000 records", 2, sorted(took)[len(took) // 2], "s", note)]


async def measure(seconds: float) -> list[Row]:
    server = ServerProcess.start()
    try:
        async with launched() as browser:
            rows = await browser_rows(browser, server.url, seconds)
        rows += await line_rows(server.url, seconds)
        rows += await server_rows(server, seconds)
        rows += await stop_rows(server)
    finally:
        server.close()
    return rows + await history_rows(_HISTORY) + await travel_rows()


def document(rows: list[Row]) -> str:
    versions = ", ".join(
        f"{name} {version(name)}" for name in ("anchormoe-agent", "starlette", "uvicorn", "playwright")
    )
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    load = f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} with this run"
    lines = ["| what | goal | result | | note |", "| --- | --- | --- | --- | --- |", *map(str, rows)]
    return "\n".join([_HEAD, f"{now}, Python {platform.python_version()}, {versions}; {load}.", "", *lines, ""])


def replaced(page: str, rows: list[Row]) -> str:
    """The page with rows that were measured later than it, which they say."""
    day = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    lines = page.splitlines()
    for row in rows:
        (at,) = [number for number, line in enumerate(lines) if line.startswith(f"| {row.what} |")]
        lines[at] = str(replace(row, note=f"{row.note}; measured {day}"))
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=None, help="where to write the page; default: only print it")
    parser.add_argument("--seconds", type=float, default=10, help="length of one measurement")
    parser.add_argument("--only", choices=["memory"], default=None, help="measure this alone")
    wanted = parser.parse_args()
    if wanted.only is not None:
        rows = asyncio.run(history_rows(_HISTORY))
        text = "\n".join(map(str, rows)) if wanted.out is None else replaced(wanted.out.read_text(), rows)
    else:
        text = document(asyncio.run(measure(wanted.seconds)))
    print(text)
    if wanted.out is not None:
        wanted.out.write_text(text)


if __name__ == "__main__":
    main()
