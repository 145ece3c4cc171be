"""`make bench`: every part of the bench, one after the other, each with its goal and its result.

A part that was measured at this commit is not measured again: an interrupted run goes on where it stopped. `--again`
measures all of them, `--only explained start` some, `--list` says what there is and how long it takes.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

LEDGER = Path("out/bench.jsonl")
_RESULTS = Path("docs/results")


@dataclass(frozen=True, slots=True)
class Part:
    """A command that writes a page; `minutes` on a quiet machine with two cores, about."""

    name: str
    arguments: tuple[str, ...]
    page: Path
    minutes: float

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", *self.arguments, "--out", str(self.page)]


def _stream(name: str, minutes: float, *more: str) -> Part:
    return Part(name, ("tests.bench.bench_stream", "--only", name, *more), _RESULTS / "bench-stream.md", minutes)


PARTS = (
    Part("start", ("tests.bench.start",), _RESULTS / "bench-start.md", 3.5),
    _stream("explained", 2.0),
    _stream("latency", 1.0),
    _stream("throughput", 3.0),
    _stream("windows", 0.5),
    Part("scale", ("tests.bench.scale",), Path("docs/scale.md"), 1.5),
    Part("alarms", ("tests.bench.alarm_recovery",), _RESULTS / "alarm-recovery.md", 1.5),
    Part("backends", ("tests.bench.backends",), _RESULTS / "backends.md", 1.5),
    Part("model", ("tests.bench.model_goals",), _RESULTS / "bench-model-goals.md", 3.0),
)
LONG = (
    Part("paper", ("tests.bench.bench_paper",), _RESULTS / "bench-model.md", 3.0),
    Part("recipes", ("tests.bench.bench_recipes",), _RESULTS / "bench-recipes.md", 12.0),
)
"""They train models: only where they are asked for."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [part.name for part in (*PARTS, *LONG)]
    parser.add_argument("--only", nargs="+", choices=names, default=[part.name for part in PARTS])
    parser.add_argument("--again", action="store_true", help="also what was measured at this commit")
    parser.add_argument("--list", action="store_true", help="print the parts and end")
    given = parser.parse_args()
    wanted = [part for part in (*PARTS, *LONG) if part.name in given.only]
    if given.list:
        for part in (*PARTS, *LONG):
            print(f"{part.name:12} about {part.minutes:g} min  {part.page}")
        return
    done = set() if given.again else _done()
    failed = [part.name for part in wanted if part.name not in done and not _measure(part)]
    print("\n".join(["", "Goals:", *_verdicts(wanted)]))
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def _measure(part: Part) -> bool:
    print(f"== {part.name}, about {part.minutes:g} min, {datetime.now(UTC):%H:%M} UTC", flush=True)
    began = time.monotonic()
    finished = subprocess.run(part.command, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"})
    if finished.returncode == 0:
        LEDGER.parent.mkdir(exist_ok=True)
        entry = {"part": part.name, "version": _version(), "seconds": round(time.monotonic() - began, 1)}
        with LEDGER.open("a") as ledger:
            ledger.write(json.dumps(entry) + "\n")
    return finished.returncode == 0


def _done() -> set[str]:
    if not LEDGER.exists():
        return set()
    entries = map(json.loads, LEDGER.read_text().splitlines())
    return {entry["part"] for entry in entries if entry["version"] == _version()}


def _version() -> str:
    """The commit without what the bench itself writes."""
    log = ["git", "log", "-1", "--format=%h", "--", "agent", "anchormoe", "connectors", "tests/bench"]
    return subprocess.run(log, capture_output=True, text=True, check=False).stdout.strip()


def _verdicts(parts: list[Part]) -> Iterator[str]:
    """The lines of the pages that say whether a goal is met."""
    for page in dict.fromkeys(part.page for part in parts):
        for line in page.read_text().splitlines() if page.exists() else ():
            if "met" in line.replace("|", " ").replace(",", " ").replace(")", " ").split():
                yield f"  {page.name}: {line.strip('| -')}"


if __name__ == "__main__":
    main()
