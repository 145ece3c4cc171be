"""Runs every method on every set and seed; finished runs are stored in a ledger and reused."""

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from anchormoe.benchmark.comparison import Truth
from anchormoe.benchmark.ledger import Entry, Ledger, split_fingerprint
from anchormoe.benchmark.methods import Effort, Method, find_method
from anchormoe.data.dataset import Split
from anchormoe.data.loading import load_dataset
from anchormoe.data.uea import DatasetNotFound
from anchormoe.errors import DataError
from anchormoe.metrics.scores import summary
from anchormoe.progress import Progress, ProgressCallback, silent

log = logging.getLogger(__name__)

LoadSplit = Callable[[str, int], Split]
STAGE = "benchmark"
OVER_BUDGET = "the time budget was used up; the same command continues"


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    """What to compare. `source` is `uea`, `synthetic` or `ablation`; only synthetic sets depend on the seed.

    `named` is True where the user chose the sets, `methods_named` where they chose the methods; `title` is the page's.
    After `budget_s` no further run is started; what is missing then is said on the page.
    """

    source: str
    sets: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    effort: Effort = field(default_factory=Effort)
    named: bool = False
    methods_named: bool = False
    title: str = ""
    budget_s: float = math.inf


@dataclass(frozen=True, slots=True)
class BenchmarkResults:
    """Finished runs, true classes by (set, seed), and the sets that are missing with the reason.

    `outdated` are runs by an earlier version of the code, which stand in where there was no time for a new one.
    """

    entries: tuple[Entry, ...]
    truth: Truth
    missing: dict[str, str]
    outdated: tuple[Entry, ...] = ()


def run_benchmark(
    plan: BenchmarkPlan,
    ledger: Ledger,
    load_split: LoadSplit,
    *,
    progress: ProgressCallback = silent,
    clock: Callable[[], float] = time.monotonic,
) -> BenchmarkResults:
    """Runs what the ledger does not hold yet. A set that cannot be loaded is listed in `missing`."""
    deadline = clock() + plan.budget_s
    entries: list[Entry] = []
    outdated: list[Entry] = []
    truth: dict[tuple[str, int], npt.NDArray[np.int64]] = {}
    missing: dict[str, str] = {}
    total = len(plan.sets) * len(plan.seeds) * len(plan.methods)
    for name in plan.sets:
        try:
            for entry, current, y in _runs_of(plan, name, ledger, load_split, lambda: clock() < deadline):
                entries.append(entry)
                outdated += [entry] if entry.version != current else []
                truth[name, entry.seed] = y
                done = f"{name} {entry.method}"
                progress(Progress(STAGE, len(entries), total, _figures(entry), detail=done))
        except DatasetNotFound:
            missing[name] = "data not found"
        except DataError as error:
            missing[name] = str(error)
    return BenchmarkResults(tuple(entries), truth, missing, tuple(outdated))


def split_loader(source: str, data_dir: Path | None) -> LoadSplit:
    """Loads splits by set name and seed; the last one stays in memory, since every method uses it."""

    @lru_cache(maxsize=1)
    def load(name: str, seed: int) -> Split:
        return load_dataset(f"{source}:{name}", data_dir=data_dir, seed=seed)

    return lambda name, seed: load(name, seed if source == "synthetic" else 0)


def find_sets(data_dir: Path | None, shipped: Sequence[str]) -> tuple[str, ...]:
    """Names of the UEA folders that hold a TRAIN file, and of the sets that need no directory."""
    found = [] if data_dir is None else [folder.name for folder in data_dir.iterdir() if _has_train_file(folder)]
    return tuple(sorted({*found, *shipped}))


def _has_train_file(folder: Path) -> bool:
    return any((folder / f"{folder.name}_TRAIN{extension}").is_file() for extension in (".ts", ".arff"))


def _runs_of(
    plan: BenchmarkPlan, name: str, ledger: Ledger, load_split: LoadSplit, may_start: Callable[[], bool]
) -> Iterator[tuple[Entry, str, npt.NDArray[np.int64]]]:
    """The run, the version that one of today has, and the true classes."""
    for seed in plan.seeds:
        split = load_split(name, seed)
        data = split_fingerprint(split)
        for method_name in plan.methods:
            chosen = find_method(method_name)
            key = (name, method_name, seed, chosen.identify(split.train, plan.effort), data)
            if (entry := ledger.find(key)) is None:
                if may_start():
                    ledger.add(entry := _run(chosen, key, split, plan.effort))
                else:
                    entry = ledger.find_earlier(key) or Entry(*key, skipped=OVER_BUDGET)
            yield entry, key[3], split.test.y


def _run(chosen: Method, key: tuple[str, str, int, str, str], split: Split, effort: Effort) -> Entry:
    name, method_name, seed, version, data = key
    if reason := chosen.skip_reason(split.train, split.test):
        return Entry(name, method_name, seed, version, data, skipped=reason)
    log.info("running %s on %s, seed %d", method_name, name, seed)
    result = chosen.run(split.train, split.test, seed, effort)
    figures = summary(split.test.y, result.predicted, result.probabilities, split.test.classes)
    return Entry(
        *key,
        predicted=result.predicted.tolist(),
        metrics=figures | result.metrics,
        fit_s=round(result.fit_s, 3),
        predict_s=round(result.predict_s, 3),
        facts=result.facts,
    )


def _figures(entry: Entry) -> dict[str, float]:
    return {"accuracy": entry.metrics["accuracy"]} if entry.metrics else {}
