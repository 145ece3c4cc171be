"""What streaming costs: against a bare consumer loop, per asset, per checkpoint, and from record to event.

Run it as `python -m tests.bench.bench_stream [--out docs/results/bench-stream.md] [--only latency …]`. It starts its
own broker and Redis. Times stand beside something measured in the same run, because machines are noisy; sections
that are not measured stay on the page as they were.
"""

import argparse
import asyncio
import platform
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.bench.stream import burst, explained, latency, soak, throughput, windows
from tests.bench.stream.page import page_of, sections_of
from tests.bench.stream.world import World

_VERSIONS = ("aiokafka", "msgspec", "numpy", "orjson", "redis", "torch")
_HEAD = (
    "# What streaming costs\n\n`make bench`, or one part at a time: `python -m tests.bench.bench_stream --only NAME`."
)


@dataclass(frozen=True, slots=True)
class Wanted:
    records: int
    bundle: Path
    seconds: float
    burst_seconds: float
    soak_seconds: float
    samples: int

    def predictor(self) -> Any:
        from anchormoe import Predictor  # torch is heavy: not every part needs it

        return Predictor.load(self.bundle, threads=1)


Measure = Callable[[World, Wanted], Awaitable[list[str]]]


async def _throughput(world: World, wanted: Wanted) -> list[str]:
    return await throughput.measured(world, wanted.records)


async def _windows(world: World, wanted: Wanted) -> list[str]:
    return await windows.measured(world, wanted.records)


async def _explained(world: World, wanted: Wanted) -> list[str]:
    return await explained.measured(world, wanted.bundle, wanted.samples)


async def _latency(world: World, wanted: Wanted) -> list[str]:
    return await latency.measured(world, wanted.predictor(), wanted.seconds)


async def _burst(world: World, wanted: Wanted) -> list[str]:
    return await burst.measured(world, wanted.predictor(), wanted.burst_seconds)


async def _soak(world: World, wanted: Wanted) -> list[str]:
    return await soak.measured(world, wanted.predictor(), wanted.soak_seconds)


PARTS: dict[str, tuple[str, Measure]] = {
    "explained": ("Explained windows per second, end to end", _explained),
    "throughput": ("Records per second, end to end without the model", _throughput),
    "windows": ("Windows", _windows),
    "latency": ("From record to event", _latency),
    "burst": ("A burst of ten times the sustainable rate", _burst),
    "soak": ("A steady stream for long", _soak),
}
QUICK = ("explained", "throughput", "windows", "latency")


async def _measured(names: list[str], wanted: Wanted) -> dict[str, str]:
    found = {}
    with World() as world:
        for name in names:
            title, measure = PARTS[name]
            body = "\n".join(await measure(world, wanted))
            found[title] = f"{_stamp(name, wanted)}\n\n{body}"
            print(f"## {title}\n\n{body}\n", flush=True)
    return found


def _wanted(given: argparse.Namespace) -> Wanted:
    return Wanted(given.records, given.bundle, given.seconds, given.burst_seconds, given.soak_seconds, given.samples)


def _stamp(name: str, wanted: Wanted) -> str:
    lengths = {
        "explained": f"--samples {wanted.samples}",
        "latency": f"--seconds {wanted.seconds:g}",
        "burst": f"--burst-seconds {wanted.burst_seconds:g}",
        "soak": f"--soak-seconds {wanted.soak_seconds:g}",
    }
    length = lengths.get(name, f"--records {wanted.records}")
    command = f"python -m tests.bench.bench_stream --only {name} {length}"
    versions = ", ".join(f"{package} {version(package)}" for package in _VERSIONS)
    return f"`{command}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python {platform.python_version()}, {versions}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=480_000)
    parser.add_argument("--samples", type=int, default=1_600, help="of each of 64 assets, for explained windows")
    parser.add_argument("--seconds", type=float, default=20, help="of half load, for the latency")
    parser.add_argument("--burst-seconds", type=float, default=60, help="it takes ten times as long to work them off")
    parser.add_argument("--soak-seconds", type=float, default=1200)
    parser.add_argument("--bundle", type=Path, default=Path("configs/bundles/pump"))
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(QUICK), help="burst and soak take long")
    parser.add_argument("--out", type=Path, help="the page to write or to complete")
    given = parser.parse_args()
    found = asyncio.run(_measured(given.only, _wanted(given)))
    if given.out:
        before = sections_of(given.out.read_text()) if given.out.exists() else {}
        given.out.write_text(page_of(_HEAD, before | found, [title for title, _ in PARTS.values()]))


if __name__ == "__main__":
    main()
