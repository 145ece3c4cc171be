"""Ablations: the experts and the paper's net with one part added, changed or removed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from anchormoe.benchmark.comparison import Difference, Spread, entries_of, mean_and_deviation, paired_difference
from anchormoe.benchmark.methods import Method, register_method
from anchormoe.benchmark.recipe_methods import RecipeMethod
from anchormoe.benchmark.runner import BenchmarkPlan, BenchmarkResults, LoadSplit
from anchormoe.data.dataset import Dataset, Split
from anchormoe.data.loading import load_dataset

TRAIN_CASES = 300
"""TRAIN is cut to so many cases, so that a row takes seconds; the parts matter most where cases are few."""
SETS = ("uea:JapaneseVowels", "uea:NATOPS", "synthetic:composition", "synthetic:multi-distractor")
PAPER_LOSS = 0.05
"""λ of the paper's losses, as in its own recipe."""


@dataclass(frozen=True, slots=True)
class AblationRow:
    """A method that differs from the first of its table by these settings of its source."""

    name: str
    label: str
    changes: MappingProxyType[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def _row(name: str, label: str, **changes: Any) -> AblationRow:
    return AblationRow(name, label, MappingProxyType(changes))


EXPERTS = (
    _row("experts", "experts, default"),
    _row("experts+spectral", "+ spectral view of tokens (MVRE)", spectral=True),
    _row("experts+orthogonality", "+ orthogonal anchors (DPAR)", orthogonality=PAPER_LOSS),
    _row("experts+alignment", "+ reliability alignment (RGC)", alignment=PAPER_LOSS),
    _row("experts+admission", "+ admission π (RGC)", admission=True),
    _row("experts+paper", "+ all four", spectral=True, admission=True, orthogonality=PAPER_LOSS, alignment=PAPER_LOSS),
    _row("experts-routing", "one expert instead of four", experts=1),
    _row("experts-sparsity", "no sparsity of the evidence", sparsity=0.0),
    _row("experts-absence", "no missing spans in training", absence=0.0),
    _row("experts-noise", "no noise, no shifts", noise=0.0, shift=0.0),
)
PAPER = (
    _row("paper", "paper, complete"),
    _row("paper-mvre", "w/o MVRE", use_mvre=False),
    _row("paper-dpar", "w/o DPAR", use_dpar=False),
    _row("paper-rgc", "w/o RGC", use_rgc=False),
)
METHODS = tuple(row.name for row in (*EXPERTS, *PAPER))


def _register(recipe: str, row: AblationRow) -> Method:
    own = RecipeMethod(recipe=recipe, changes=MappingProxyType({recipe: row.changes}))
    return register_method(Method(row.name, row.label, own.run, own.version))


for _each in EXPERTS:
    _register("experts", _each)
for _each in PAPER:
    _register("paper", _each)


def ablation_loader(data_dir: Path | None) -> LoadSplit:
    """Loads splits by `source:set` and seed, with at most TRAIN_CASES cases in TRAIN."""

    @lru_cache(maxsize=1)
    def load(spec: str, seed: int) -> Split:
        split = load_dataset(spec, data_dir=data_dir, seed=seed)
        return Split(limit_cases(split.train, TRAIN_CASES), split.test)

    return lambda spec, seed: load(spec, seed if spec.startswith("synthetic:") else 0)


def limit_cases(train: Dataset, most: int) -> Dataset:
    """The first cases of each class in turn, in their original order."""
    number = np.empty(len(train), np.int64)
    for label in np.unique(train.y):
        members = np.flatnonzero(train.y == label)
        number[members] = np.arange(len(members))
    return train.subset(np.sort(np.lexsort((train.y, number))[:most]))


def ablation_table(rows: Sequence[AblationRow], plan: BenchmarkPlan, results: BenchmarkResults) -> list[list[str]]:
    """Accuracy (and AUPRC where the evidence is known) by set, then the mean differences to the first row."""
    sets = [name for name in plan.sets if name not in results.missing]
    used = [row for row in rows if row.name in plan.methods]
    head = ["", *[name.partition(":")[2] for name in sets], "accuracy vs the first row", "AUPRC vs the first row"]
    body = [
        [row.label, *[_figures(results, name, row.name) for name in sets], *_against(used[0], row, sets, results)]
        for row in used
    ]
    return [head, *body] if body else []


def _figures(results: BenchmarkResults, set_name: str, key: str) -> str:
    own = entries_of(results.entries, set_name, key)
    accuracy = mean_and_deviation([one.metrics["accuracy"] for one in own])
    if accuracy is None:
        return "–"
    auprcs = _auprcs(results, set_name, key)
    return f"{accuracy.mean:.3f}" + (f" / {np.mean(list(auprcs.values())):.3f}" if auprcs else "")


def _against(first: AblationRow, row: AblationRow, sets: Sequence[str], results: BenchmarkResults) -> list[str]:
    if row == first:
        return ["", ""]
    found = (_difference(first, row, name, results) for name in sets)
    differences = [one for one in found if one is not None]
    return [_format_difference(_mean(differences)), _format_spread(_auprc_differences(first, row, sets, results))]


def _difference(first: AblationRow, row: AblationRow, set_name: str, results: BenchmarkResults) -> Difference | None:
    ours, theirs = (entries_of(results.entries, set_name, one.name) for one in (row, first))
    return paired_difference(ours, theirs, results.truth)


def _mean(differences: Sequence[Difference]) -> Difference | None:
    """Over sets, which are independent."""
    if not differences:
        return None
    error = np.sqrt(sum(one.standard_error**2 for one in differences)) / len(differences)
    return Difference(float(np.mean([one.mean for one in differences])), float(error))


def _auprc_differences(
    first: AblationRow, row: AblationRow, sets: Sequence[str], results: BenchmarkResults
) -> Spread | None:
    """Over sets and seeds."""
    found: list[float] = []
    for name in sets:
        ours, theirs = (_auprcs(results, name, key) for key in (row.name, first.name))
        found.extend(ours[seed] - theirs[seed] for seed in ours if seed in theirs)
    return mean_and_deviation(found)


def _auprcs(results: BenchmarkResults, set_name: str, key: str) -> dict[int, float]:
    return {
        one.seed: one.metrics["localization"]["any_overlap"]["auprc"]
        for one in entries_of(results.entries, set_name, key)
        if "localization" in one.metrics
    }


def _format_difference(difference: Difference | None) -> str:
    return "–" if difference is None else f"{difference.mean:+.3f} ± {difference.standard_error:.3f}"


def _format_spread(found: Spread | None) -> str:
    if found is None:
        return "–"
    return f"{found.mean:+.3f}" + (f" ± {found.deviation / np.sqrt(found.count):.3f}" if found.count > 1 else "")
