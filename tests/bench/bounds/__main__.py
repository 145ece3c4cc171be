"""Measures what the limits of the settings are worth: `python -m tests.bench.bounds --out docs/results/bounds.md`.

It starts its own broker and Redis. Every case runs in a process of its own, so that its memory is its own.
"""

import argparse
import asyncio
import os
import platform
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from connectors.records import DEAD_LETTERS, EVENTS, STATES
from tests.bench.bounds.cases import CASES, Case, Found
from tests.bench.bounds.plant import MAX_POLL_MS, SESSION_MS, Services, send
from tests.bench.stream.page import page_of, sections_of
from tests.support.services.kafka import KafkaBroker
from tests.support.services.redis import RedisOptions, RedisServer

_VERSIONS = ("anchormoe-agent", "aiokafka", "msgspec", "numpy", "orjson", "redis")
_HEAD = (
    "# What the limits are worth\n\n"
    "`make bounds`: cases that once exceeded them, on a real broker and a real Redis, with the limits of the\n"
    "settings' defaults. Memory is the growth of the agent's process over the run, at its peak; a stall is the\n"
    "longest time between two turns of the event loop beyond the ticker's own 10 ms; the session is kept when the\n"
    f"partition was claimed once (session {SESSION_MS / 1000:g} s, max.poll.interval {MAX_POLL_MS / 1000:g} s).\n"
    "Other programs on the machine make stalls and times longer, so the load is given."
)
_ROWS = {
    "windows": ("windows made due", "{:,}"),
    "dead letters": ("dead letters", "{}"),
    "assets": ("assets with windows (max_assets 100)", "{}"),
    "grown_mib": ("memory, MiB", "{:.0f}"),
    "stall_s": ("longest stall of the loop, s", "{:.2f}"),
    "polls_apart_s": ("longest time between two polls, s", "{:.2f}"),
    "waiting_windows": ("most windows that waited", "{:,}"),
    "queue_windows": ("limits.queue_windows", "{:,}"),
    "session_kept": ("session kept", "{}"),
    "seconds": ("the whole run, s", "{:.0f}"),
}


def _run(case: Case, kafka: KafkaBroker, redis: RedisServer, topic: str) -> Found:
    kafka.create_topic(topic, case.partitions)
    for stream in (EVENTS, STATES, DEAD_LETTERS):
        kafka.create_topic(f"{topic}-{stream}", 1)
    services = Services(kafka.bootstrap, redis.url, topic)
    records = asyncio.run(send(services, case.messages()))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as elsewhere:
        return elsewhere.submit(case.run, services, records).result()


def _section(name: str, found: Found) -> str:
    versions = ", ".join(f"{package} {version(package)}" for package in _VERSIONS)
    load = os.getloadavg()[0]
    stamp = (
        f"`python -m tests.bench.bounds --only {name}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python "
        f"{platform.python_version()}, {versions}; {os.cpu_count()} cores, load average {load:.1f} with this run."
    )
    return f"{stamp}\n\n{_table(found)}"


def _table(found: Found) -> str:
    rows = [(meaning, form.format(found[key])) for key, (meaning, form) in _ROWS.items() if key in found]
    rows += [(key, f"{value:,.1f}") for key, value in found.items() if key.startswith(("steady", "slow"))]
    if "slow records/s" in found:
        rows.append(
            ("a record of the slow sensor costs, in the whole", f"{_ratio(found, 'records/s'):.1f}× a steady one")
        )
        rows.append(("… to take in", f"{_ratio(found, 'taken in/s'):.1f}× a steady one"))
        rows.append(("a window of the slow sensor costs", f"{_ratio(found, 'windows/s'):.2f}× a steady one"))
    return "\n".join(["| | |", "| --- | --- |", *(f"| {meaning} | {value} |" for meaning, value in rows)])


def _ratio(found: dict[str, Any], what: str) -> float:
    return float(found[f"steady {what}"] / found[f"slow {what}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--out", type=Path, help="the page to write or to complete")
    given = parser.parse_args()
    kafka, redis = KafkaBroker(quick_start=False), RedisServer("redis", RedisOptions())
    kafka.start()
    redis.start()
    sections = sections_of(given.out.read_text()) if given.out and given.out.exists() else {}
    try:
        for name in given.only:
            body = _section(name, _run(CASES[name], kafka, redis, f"bounds-{name}"))
            sections[CASES[name].title] = body
            print(f"## {CASES[name].title}\n\n{body}\n", flush=True)
            if given.out:
                given.out.write_text(page_of(_HEAD, sections, [case.title for case in CASES.values()]))
    finally:
        kafka.close()
        redis.close()


if __name__ == "__main__":
    main()
