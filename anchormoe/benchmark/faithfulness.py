"""Faithfulness of our recipes' evidence as a benchmark: one method per recipe, and the tables of its page."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anchormoe.benchmark.comparison import Difference, difference_over_seeds, entries_of, mean_and_deviation
from anchormoe.benchmark.ledger import Entry
from anchormoe.benchmark.methods import Method, find_method, register_method
from anchormoe.benchmark.recipe_digest import digest_files
from anchormoe.benchmark.recipe_methods import RecipeMethod
from anchormoe.benchmark.report_tables import Paper, format_spread, markdown, quote
from anchormoe.benchmark.runner import BenchmarkPlan, BenchmarkResults
from anchormoe.cases import Float64
from anchormoe.data.dataset import Dataset

if TYPE_CHECKING:
    from anchormoe.predictor import Predictor

RECIPES = ("joint", "kernel", "experts", "paper")
METHODS = tuple(f"{recipe}-evidence" for recipe in RECIPES)
"""`RECIPE-gap` is the same without I(20), whose evaluators take most of the time on small sets."""
NAMES = {"evidence": "evidence", "centred": "centred", "occlusion": "occlusion", "random": "random"}
GOALS = {"missing": 1.0, "mean": 0.9}
"""The share of the best ranking's Gap that the evidence must reach, within one standard error."""
TITLES = {"missing": "marked missing", "mean": "set to TRAIN's mean"}
_OWN_FILES = ("removal", "gap", "rankings", "occlusion", "retention", "evaluator_net", "faithfulness", "localization")


def _measure(predictor: "Predictor", train: Dataset, test: Dataset, seed: int, *, retention: bool) -> dict[str, Any]:
    from anchormoe.metrics.faithfulness import FaithfulnessPlan, measure_faithfulness

    plan = FaithfulnessPlan(seed=seed, retention=retention)
    return {"faithfulness": measure_faithfulness(predictor, predictor.model.normalizer, train, test, plan)}


@cache
def _measured(what: str) -> str:
    metrics = Path(__file__).parent.parent / "metrics"
    return f", {what} {digest_files(metrics / f'{name}.py' for name in _OWN_FILES)}"


def _register(name: str, recipe: str, *, retention: bool) -> Method:
    what = "faithfulness" if retention else "gap"
    own = RecipeMethod(recipe=recipe, measure=partial(_measure, retention=retention), measured=partial(_measured, what))
    return register_method(Method(name, recipe, own.run, own.version))


for _each in RECIPES:
    _register(f"{_each}-evidence", _each, retention=True)
    _register(f"{_each}-gap", _each, retention=False)


def verdict_table(plan: BenchmarkPlan, results: BenchmarkResults, how: str) -> str:
    """Per set and recipe: the evidence's Gap, the best other ranking's, and whether the goal is reached."""
    head = ["set", "recipe", "evidence", "best ranking", f"evidence − {GOALS[how]:.0%} of the best", "reached"]
    return markdown(head, _rows(plan, results, lambda name, key, own: _verdict_row(own, how)))


def gap_difference(own: Sequence[Entry], how: str) -> tuple[str, Difference]:
    """The best ranking over all seeds, and the evidence's Gap minus the goal's share of that one's."""
    gaps = {name: np.mean([_figures(one, how)[name]["gap"] for one in own]) for name in NAMES if name != "random"}
    best = max(gaps, key=lambda name: gaps[name])
    table = np.stack([_by_case(one, how, "evidence") - GOALS[how] * _by_case(one, how, best) for one in own])
    return best, difference_over_seeds(table)


def _verdict_row(own: Sequence[Entry], how: str) -> list[str]:
    best, difference = gap_difference(own, how)
    return [
        _gap(own, how, "evidence"),
        f"{NAMES[best]} {_gap(own, how, best)}",
        f"{difference.mean:+.3f} ± {difference.standard_error:.3f}",
        "✓" if difference.not_worse else "✗",
    ]


def gap_table(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper, how: str) -> str:
    """Every ranking; the paper's own figure beside, which is counted with the mean."""
    head = ["set", "recipe", "accuracy", *NAMES.values(), "paper: AnchorMoE", "paper: best explainer"]
    return markdown(
        head,
        _rows(
            plan, results,
            lambda name, key, own: [
                _mean(own, lambda one: one.metrics["faithfulness"]["accuracy"]),
                *[_gap(own, how, ranking) for ranking in NAMES],
                quote(paper.faithfulness, name, "gap", "AnchorMoE"),
                _best_explainer(paper, name, "gap"),
            ],
        ),
    )  # fmt: skip


def retention_table(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper, how: str) -> str:
    """I(20) with the mask-only control after the slash; `–` where it was not measured, nothing where it never was."""
    if not any("i20" in _figures(one, how)["evidence"] for one in results.entries if "faithfulness" in one.metrics):
        return ""
    head = ["set", "recipe", *NAMES.values(), "paper: AnchorMoE", "paper: best explainer"]
    return markdown(
        head,
        _rows(
            plan, results,
            lambda name, key, own: [
                *[_retained(own, how, ranking) for ranking in NAMES],
                quote(paper.faithfulness, name, "i20", "AnchorMoE"),
                _best_explainer(paper, name, "i20"),
            ],
        ),
    )  # fmt: skip


def cancellation_table(plan: BenchmarkPlan, results: BenchmarkResults) -> str:
    """Median / p90 on TEST, by patch and by channel, and the context's share of the score."""
    head = ["set", "recipe", "by patch", "by patch and channel", "context / score", "bounds 1.5 / 3"]
    return markdown(head, _rows(plan, results, lambda name, key, own: _cancellation_row(own)))


def _cancellation_row(own: Sequence[Entry]) -> list[str]:
    found = [one.metrics["cancellation"] for one in own]
    pairs = (("median", "p90"), ("channel_median", "channel_p90"))
    return [
        *[" / ".join(_largest([one[name] for one in found]) for name in names) for names in pairs],
        _largest([one["context_share"] for one in found]),
        "✓" if all(one["bounds_kept"] for one in found) else "✗",
    ]


def _largest(values: Sequence[float | None]) -> str:
    """Over seeds."""
    known = [value for value in values if value is not None]
    return f"{max(known):.2f}" if len(known) == len(values) else "infinite"


def _rows(plan: BenchmarkPlan, results: BenchmarkResults, row: Any) -> list[list[str]]:
    """Of every set and method with finished runs; of two that differ by I(20) alone, the one that has it."""
    found = []
    for name in plan.sets:
        runs = {key: _finished(results, name, key) for key in plan.methods}
        for key, own in runs.items():
            if own and not (key.endswith("-gap") and runs.get(key.replace("-gap", "-evidence"))):
                found.append([name, find_method(key).label, *row(name, key, own)])
    return found


def _finished(results: BenchmarkResults, name: str, key: str) -> list[Entry]:
    return [one for one in entries_of(results.entries, name, key) if "faithfulness" in one.metrics]


def _figures(entry: Entry, how: str) -> Mapping[str, Any]:
    return entry.metrics["faithfulness"][how]  # type: ignore[no-any-return]  # JSON


def _by_case(entry: Entry, how: str, ranking: str) -> Float64:
    """(N,) the gap of each case."""
    counts = np.asarray(_figures(entry, how)[ranking]["by_case"], np.float64)
    return np.asarray(counts / len(entry.metrics["faithfulness"]["shares"]))


def _gap(own: Sequence[Entry], how: str, ranking: str) -> str:
    """± one standard error over cases and seeds."""
    found = difference_over_seeds(np.stack([_by_case(one, how, ranking) for one in own]))
    return f"{found.mean:.3f} ± {found.standard_error:.3f}"


def _retained(own: Sequence[Entry], how: str, ranking: str) -> str:
    figures = [_figures(one, how)[ranking] for one in own]
    if not all("i20" in one for one in figures):
        return "–"
    error = np.mean([one["i20_error"] for one in figures])
    accuracy, control = (np.mean([one[name] for one in figures]) for name in ("i20", "mask_only"))
    return f"{accuracy:.3f} ± {error:.3f} / {control:.3f}"


def _mean(own: Sequence[Entry], value: Any) -> str:
    return format_spread(mean_and_deviation([value(one) for one in own]))


def _best_explainer(paper: Paper, set_name: str, metric: str) -> str:
    """The best of the nine post-hoc explainers that the paper lists, by name."""
    if set_name not in paper.faithfulness:
        return "–"
    figures = paper.faithfulness[set_name][metric]
    best = max((key for key in figures if key not in ("AnchorMoE", "Random")), key=lambda key: figures[key][0])
    return f"{best} {figures[best][0]:.3f}"
