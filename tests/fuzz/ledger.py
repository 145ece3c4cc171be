"""What was run, one JSON line per finished chunk; a later run goes on where the last one ended."""

import platform
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from tests.fuzz.runner import ChunkResult

PACKAGES = ("anchormoe-agent", "msgspec", "orjson", "numpy", "pydantic", "starlette", "httpx", "torch")


@dataclass(frozen=True, slots=True)
class Line:
    """One chunk. `failures` are counts by kind, `findings` what was new: its signature and how often it was seen."""

    door: str
    variant: str
    seed: int
    number: int
    records: int
    used: int = 0
    ignored: int = 0
    control: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    findings: dict[str, int] = field(default_factory=dict)
    traits: int = 0
    slowest_s: float = 0.0
    seconds: float = 0.0
    process_s: float = 0.0
    rss_before: int = 0
    rss_after: int = 0
    rss_peak: int = 0
    traced_growth: int | None = None
    worker: str = ""
    commit: str = ""
    at: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, result: ChunkResult, *, seed: int, number: int, worker: str) -> "Line":
        outcome = result.outcome
        return cls(
            door=result.door,
            variant=result.variant,
            seed=seed,
            number=number,
            records=result.inputs,
            used=outcome.used,
            ignored=outcome.ignored,
            control=outcome.control,
            refused=dict(outcome.refused),
            failures=dict(result.failures),
            findings={name: finding.times for name, finding in result.findings.items()},
            traits=result.traits,
            slowest_s=round(result.slowest_s, 3),
            seconds=round(result.seconds, 2),
            process_s=round(result.process_s, 2),
            rss_before=result.rss_before,
            rss_after=result.rss_after,
            rss_peak=result.rss_peak,
            traced_growth=result.traced_growth,
            worker=worker,
            **_circumstances(),
        )

    @classmethod
    def lost(cls, door: str, variant: str, *, seed: int, number: int, worker: str, kind: str, why: str) -> "Line":
        """A chunk whose process had to be ended, or ended by itself."""
        failures, findings = {kind: 1}, {f"{kind}: {why}": 1}
        return cls(
            door, variant, seed, number, 0, failures=failures, findings=findings, worker=worker, **_circumstances()
        )


class Ledger:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.lines = list(_read(path))

    def records(self, door: str, seed: int) -> int:
        return sum(line.records for line in self.lines if (line.door, line.seed) == (door, seed))

    def next_number(self, door: str, seed: int) -> int:
        return max((line.number for line in self.lines if (line.door, line.seed) == (door, seed)), default=-1) + 1

    def append(self, line: Line) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(orjson.dumps(line) + b"\n")
        self.lines.append(line)


def _read(path: Path) -> Iterator[Line]:
    if path.exists():
        for line in path.read_bytes().splitlines():
            yield Line(**orjson.loads(line))


@cache
def _circumstances_of_the_run() -> tuple[str, dict[str, str]]:
    asked = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "unknown", {"python": platform.python_version()} | {
        name: version(name) for name in PACKAGES
    }


def _circumstances() -> dict[str, Any]:
    commit, versions = _circumstances_of_the_run()
    return {"commit": commit, "versions": versions, "at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M")}
