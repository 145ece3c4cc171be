"""What the parts are worth: the experts and the paper's net with one part added, changed or taken away."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from anchormoe.benchmark.comparison import Difference, Spread, entries_of, paired, spread
from anchormoe.benchmark.methods import Method, register
from anchormoe.benchmark.recipe_methods import RecipeMethod
from anchormoe.benchmark.runner import LoadSplit, Plan, Results
from anchormoe.data.dataset import Dataset, Split
from anchormoe.data.loading import load_dataset

TRAIN_CASES = 300
"""More cases of TRAIN are not used, so that a row takes seconds; the parts matter most where cases are few."""
SETS = ("uea:JapaneseVowels", "uea:NATOPS", "synthetic:composition", "synthetic:multi-distractor")
PAPER_LOSS = 0.05
"""λ of the paper's losses, as in its own recipe."""


@dataclass(frozen=True, slots=True)
class Row:
    """A method that differs from the first of its table by these settings of its source."""

    name: str
    label: str
    changes: MappingProxyType[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def _row(name: str, label: str, **changes: Any) -> Row:
    return Row(name, label, MappingProxyType(changes))


EXPERTS = (
    _row("experts", "experts, as they are"),
    _row("experts+spectral", "+ spectral view of tokens (MVRE)", spectral=True),
    _row("experts+orthogonality", "+ orthogonal anchors (DPAR)", orthogonality=PAPER_LOSS),
    _row("experts+alignment", "+ reliability alignment (RGC)", alignment=PAPER_LOSS),
    _row("experts+admission", "+ admission π (RGC)", admission=True),
    _row("experts+paper", "+ all four", spectral=True, admission=True, orthogonality=PAPER_LOSS, alignment=PAPER_LOSS),
    _row("experts-routing", "one expert instead of four", experts=1),
    _row("experts-sparsity", "no sparsity of the evidence", sparsity=0.0),
    _row("experts-dropout", "no hiding of evidence", dropout=0.0),
    _row("experts-noise", "no noise, no shifts", noise=0.0, shift=0.0),
)
PAPER = (
    _row("paper", "paper, whole"),
    _row("paper-mvre", "w/o MVRE", use_mvre=False),
    _row("paper-dpar", "w/o DPAR", use_dpar=False),
    _row("paper-rgc", "w/o RGC", use_rgc=False),
)
METHODS = tuple(row.name for row in (*EXPERTS, *PAPER))


def _registered(recipe: str, row: Row) -> Method:
    own = RecipeMethod(recipe=recipe, changes=MappingProxyType({recipe: row.changes}))
    return register(Method(row.name, row.label, own.run, own.version))


for _each in EXPERTS:
    _registered("experts", _each)
for _each in PAPER:
    _registered("paper", _each)


def loader(data_dir: Path | None) -> LoadSplit:
    """Splits by `source:set` and seed, with at most TRAIN_CASES cases to train on."""

    @lru_cache(maxsize=1)
    def load(spec: str, seed: int) -> Split:
        split = load_dataset(spec, data_dir=data_dir, seed=seed)
        return Split(first_of_each_class(split.train, TRAIN_CASES), split.test)

    return lambda spec, seed: load(spec, seed if spec.startswith("synthetic:") else 0)


def first_of_each_class(train: Dataset, most: int) -> Dataset:
    """The first cases of the classes in turn, in their old order."""
    place = np.empty(len(train), np.int64)
    for label in np.unique(train.y):
        own = np.flatnonzero(train.y == label)
        place[own] = np.arange(len(own))
    return train.subset(np.sort(np.lexsort((train.y, place))[:most]))


def table(rows: Sequence[Row], plan: Plan, results: Results) -> list[list[str]]:
    """Accuracy (and AUPRC where places are known) by set, then the mean differences to the first row."""
    sets = [name for name in plan.sets if name not in results.missing]
    used = [row for row in rows if row.name in plan.methods]
    head = ["", *[name.partition(":")[2] for name in sets], "accuracy against the first", "AUPRC against the first"]
    body = [
        [row.label, *[_figures(results, name, row.name) for name in sets], *_against(used[0], row, sets, results)]
        for row in used
    ]
    return [head, *body] if body else []


def _figures(results: Results, set_name: str, key: str) -> str:
    own = entries_of(results.entries, set_name, key)
    accuracy = spread([one.metrics["accuracy"] for one in own])
    if accuracy is None:
        return "–"
    places = _auprcs(results, set_name, key)
    return f"{accuracy.mean:.3f}" + (f" / {np.mean(list(places.values())):.3f}" if places else "")


def _against(first: Row, row: Row, sets: Sequence[str], results: Results) -> list[str]:
    if row == first:
        return ["", ""]
    found = (_difference(first, row, name, results) for name in sets)
    differences = [one for one in found if one is not None]
    return [_shown(_mean(differences)), _place(_place_differences(first, row, sets, results))]


def _difference(first: Row, row: Row, set_name: str, results: Results) -> Difference | None:
    ours, theirs = (entries_of(results.entries, set_name, one.name) for one in (row, first))
    return paired(ours, theirs, results.truth)


def _mean(differences: Sequence[Difference]) -> Difference | None:
    """Over sets, which are independent of each other."""
    if not differences:
        return None
    error = np.sqrt(sum(one.standard_error**2 for one in differences)) / len(differences)
    return Difference(float(np.mean([one.mean for one in differences])), float(error))


def _place_differences(first: Row, row: Row, sets: Sequence[str], results: Results) -> Spread | None:
    """Of AUPRC over sets and seeds."""
    found: list[float] = []
    for name in sets:
        ours, theirs = (_auprcs(results, name, key) for key in (row.name, first.name))
        found.extend(ours[seed] - theirs[seed] for seed in ours if seed in theirs)
    return spread(found)


def _auprcs(results: Results, set_name: str, key: str) -> dict[int, float]:
    return {
        one.seed: one.metrics["localization"]["any_overlap"]["auprc"]
        for one in entries_of(results.entries, set_name, key)
        if "localization" in one.metrics
    }


def _shown(difference: Difference | None) -> str:
    return "–" if difference is None else f"{difference.mean:+.3f} ± {difference.standard_error:.3f}"


def _place(found: Spread | None) -> str:
    if found is None:
        return "–"
    return f"{found.mean:+.3f}" + (f" ± {found.deviation / np.sqrt(found.count):.3f}" if found.count > 1 else "")
