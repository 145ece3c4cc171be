"""The ledger of a soak: one JSON line per run and per sample, so that an interrupted run counts with its length."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

_WARM_UP_S = 1200.0
_S_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds since the load began, resident megabytes by process, records not yet committed by consumer group."""

    at_s: float
    memory_mb: dict[str, float]
    lag: dict[str, int]
    records: int
    events: int
    load_average: float


@dataclass(slots=True)
class SoakRun:
    """`facts`: commit, versions, date and load. `ended`: how it went, missing when it was interrupted."""

    facts: dict[str, Any]
    samples: list[Sample] = field(default_factory=list)
    ended: str | None = None

    @property
    def seconds(self) -> float:
        return self.samples[-1].at_s if self.samples else 0.0

    @property
    def steady(self) -> list[Sample]:
        """Without the warm-up: 20 minutes, or the first third of a shorter run."""
        begin_s = min(_WARM_UP_S, self.seconds / 3)
        return [sample for sample in self.samples if sample.at_s >= begin_s]


@dataclass(frozen=True, slots=True)
class Slope:
    """Megabytes per hour by least squares, and its standard error."""

    mb_per_h: float
    error: float


def slope(runs: Sequence[SoakRun], process: str) -> Slope | None:
    """One slope over all runs; each run has a level of its own, because its process started anew. None: too few."""
    hours, memory, count = [], [], 0
    for run in runs:
        found = [(sample.at_s / _S_PER_HOUR, sample.memory_mb[process]) for sample in run.steady]
        if len(found) > 1:
            x, y = np.array(found).T
            hours.append(x - x.mean())
            memory.append(y - y.mean())
            count += 1
    if not hours:
        return None
    x, y = np.concatenate(hours), np.concatenate(memory)
    spread, left = float(x @ x), len(x) - count - 1
    if left < 1 or spread == 0:
        return None
    mb_per_h = float(x @ y) / spread
    rest = y - mb_per_h * x
    return Slope(mb_per_h, float(np.sqrt(rest @ rest / left / spread)))


def append(ledger: Path, kind: str, content: Any) -> None:
    ledger.parent.mkdir(parents=True, exist_ok=True)
    with ledger.open("a+b") as out:
        out.seek(max(out.seek(0, 2) - 1, 0))
        broken = out.read(1) not in (b"", b"\n")  # the last line of a run that was interrupted
        out.write(b"\n" * broken + orjson.dumps({kind: content}) + b"\n")


def append_sample(ledger: Path, sample: Sample) -> None:
    append(ledger, "sample", asdict(sample))


def read_ledger(ledger: Path) -> list[SoakRun]:
    """A last line that is not whole belongs to an interrupted run and is left out."""
    runs: list[SoakRun] = []
    for line in ledger.read_bytes().splitlines() if ledger.exists() else []:
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if "run" in entry:
            runs.append(SoakRun(entry["run"]))
        elif runs and "sample" in entry:
            runs[-1].samples.append(Sample(**entry["sample"]))
        elif runs and "ended" in entry:
            runs[-1].ended = entry["ended"]
    return runs
