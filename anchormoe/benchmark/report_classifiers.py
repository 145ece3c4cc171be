"""The page of the paper's classifiers: accuracy and F1, ranks and tests, the paper's figures beside ours."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from anchormoe.benchmark.comparison import Spread, entries_of, mean_and_deviation
from anchormoe.benchmark.ledger import Entry
from anchormoe.benchmark.methods import find_method
from anchormoe.benchmark.rank_diagram import draw_rank_diagram
from anchormoe.benchmark.report_tables import OWN, Paper, format_spread, markdown
from anchormoe.benchmark.runner import BenchmarkPlan, BenchmarkResults
from anchormoe.benchmark.significance import compare_with_control, rank_methods, wilcoxon_holm

PAPER_NAMES = {
    "patchtst": "PatchTST",
    "fedformer": "FEDformer",
    "dlinear": "DLinear",
    "lightts": "LightTS",
    "micn": "MICN",
    "timesnet": "TimesNet",
    "tslanet": "TSLANet",
    "mptsnet": "MPTSNet",
    "minirocket": "MiniRocket",
    "anchormoe-paper": "AnchorMoE",
    "anchormoe-paper-optimistic": "AnchorMoE",
}
"""Our methods and the paper's columns; ours as `joint` is not in the paper."""
METRICS = {"accuracy": "Accuracy", "macro_f1": "Macro F1", "weighted_f1": "Weighted F1 (as in the paper's release)"}
JUDGED_OUT = "StandWalkJump"
"""15 TEST cases: shown, not ranked."""
HONEST, OPTIMISTIC = "anchormoe-paper", "anchormoe-paper-optimistic"
LEARNED = 0.05
"""A network whose TRAIN loss ends above it has not learned TRAIN: its figure is not its best."""
MIN_METHODS, MIN_SETS = 3, 2
"""Below them there is nothing to rank."""
COMPARED = (*[name for name in PAPER_NAMES if not name.startswith(OWN)], OWN)
"""The test is the paper's: its nine classifiers against ours. More methods would only widen the critical difference."""


def score(entry: Entry, metric: str) -> float:
    """Weighted F1 is the mean of the classes' F1 by their share of TEST."""
    if metric != "weighted_f1":
        return float(entry.metrics[metric])
    classes = entry.metrics["per_class"].values()
    return float(sum(one["f1"] * one["cases"] for one in classes) / sum(one["cases"] for one in classes))


def score_tables(plan: BenchmarkPlan, results: BenchmarkResults, metric: str) -> dict[str, dict[str, Spread]]:
    """By set and method, the mean over seeds."""
    found: dict[str, dict[str, Spread]] = {}
    for name in plan.sets:
        for method in plan.methods:
            own = [score(entry, metric) for entry in entries_of(results.entries, name, method)]
            if spread := mean_and_deviation(own):
                found.setdefault(name, {})[method] = spread
    return found


def score_table(plan: BenchmarkPlan, tables: Mapping[str, Mapping[str, Spread]]) -> str:
    """One row per method, one column per set; the best of a column is bold, the optimistic row apart."""
    sets = [name for name in plan.sets if name in tables]
    best = {
        name: max((each.mean for key, each in tables[name].items() if key != OPTIMISTIC), default=None) for name in sets
    }
    rows = []
    for method in [one for one in plan.methods if any(one in tables[name] for name in sets)]:
        cells = []
        for name in sets:
            value = tables[name].get(method)
            text = format_spread(value)
            cells.append(
                f"**{text}**" if value is not None and method != OPTIMISTIC and value.mean == best[name] else text
            )
        rows.append([find_method(method).label, *cells])
    return markdown(["method", *sets], rows)


def beside_paper(plan: BenchmarkPlan, tables: Mapping[str, Mapping[str, Spread]], paper: Paper, metric: str) -> str:
    """Ours / the paper's, for the methods and sets that both have."""
    sets = [name for name in plan.sets if name in tables and name in paper.classification]
    rows = [
        [find_method(method).label, *[_both(tables[name].get(method), paper, name, metric, method) for name in sets]]
        for method in plan.methods
        if method in PAPER_NAMES and any(method in tables[name] for name in sets)
    ]
    return markdown(["method: ours / the paper's", *sets], rows) if sets and rows else ""


def _both(own: Spread | None, paper: Paper, name: str, metric: str, method: str) -> str:
    quoted = paper.classification[name][metric][PAPER_NAMES[method]][0]
    return f"{'–' if own is None else f'{own.mean:.3f}'} / {quoted:.3f}"


def judged_scores(tables: Mapping[str, Mapping[str, Spread]], methods: Collection[str]) -> dict[str, dict[str, float]]:
    """By set, of the sets with enough TEST cases on which every one of the methods has run."""
    found = {
        name: {key: one.mean for key, one in row.items() if key in methods}
        for name, row in tables.items()
        if name != JUDGED_OUT
    }
    return {name: row for name, row in found.items() if len(row) == len(methods)}


def compared_methods(tables: Mapping[str, Mapping[str, Spread]]) -> tuple[str, ...]:
    """Of the paper's nine and ours, those that have run at all."""
    return tuple(name for name in COMPARED if any(name in row for row in tables.values()))


def rank_section(tables: Mapping[str, Mapping[str, Spread]]) -> str:
    """Mean ranks, Friedman, and the paper's nine against ours by two tests; empty without two complete sets."""
    scores = judged_scores(tables, compared_methods(tables))
    ranking = rank_methods(list(scores.values()))
    if OWN not in ranking.ranks or len(ranking.ranks) < MIN_METHODS or len(scores) < MIN_SETS:
        return ""
    two = compare_with_control(ranking, OWN)
    one = compare_with_control(ranking, OWN, two_sided=False)
    second = wilcoxon_holm(list(scores.values()), OWN)
    rows = [
        [
            find_method(name).label,
            f"{rank:.2f}",
            "–" if name == OWN else f"{rank - ranking.ranks[OWN]:+.2f}",
            "–" if name == OWN else f"{two.p_values[name]:.3f}",
            "–" if name == OWN else f"{second[name]:.3f}",
        ]
        for name, rank in sorted(ranking.ranks.items(), key=lambda item: item[1])
    ]
    p_value = "–" if ranking.friedman_p is None else f"{ranking.friedman_p:.2g}"
    return (
        f"The paper's nine and ours, {len(ranking.ranks)} methods on {ranking.sets} sets ({', '.join(scores)}; "
        f"{JUDGED_OUT} has too few TEST cases, others lack a method): Friedman p = {p_value}; critical difference of "
        f"Bonferroni–Dunn against ours at .05: {two.critical_difference:.2f} two-sided (one-sided, which is what the "
        f"paper prints as two-sided: {one.critical_difference:.2f}). Wilcoxon–Holm is a second opinion; with few "
        "sets it cannot become significant whatever the figures.\n\n"
        + markdown(["method", "mean rank", "minus ours", "p Bonferroni–Dunn (two-sided)", "p Wilcoxon–Holm"], rows)
    )


def summary_table(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper) -> str:
    """Means over the sets that the paper's nine and ours (as far as they ran) all have; empty without any."""
    accuracy, f1 = (score_tables(plan, results, metric) for metric in ("accuracy", "macro_f1"))
    methods = compared_methods(accuracy)
    scores, second = judged_scores(accuracy, methods), judged_scores(f1, methods)
    if not scores:
        return ""
    ranks = rank_methods(list(scores.values())).ranks
    rows = [
        [
            find_method(name).label,
            f"{ranks[name]:.2f}",
            f"{np.mean([row[name] for row in scores.values()]):.3f}",
            f"{np.mean([row[name] for row in second.values()]):.3f}",
            _published_mean(paper, list(scores), name),
        ]
        for name in sorted(ranks, key=lambda name: ranks[name])
    ]
    count = f"{len(scores)} set{'s' if len(scores) > 1 else ''}"
    return markdown(["method", f"mean rank, {count}", "accuracy", "macro F1", "accuracy in the paper"], rows)


def _published_mean(paper: Paper, sets: Sequence[str], method: str) -> str:
    column = PAPER_NAMES.get(method)
    if column is None or any(name not in paper.classification for name in sets):
        return "–"
    return f"{np.mean([paper.classification[name]['accuracy'][column][0] for name in sets]):.3f}"


def all_ranks(tables: Mapping[str, Mapping[str, Spread]]) -> str:
    """Mean ranks of every honest method, our other recipes included; empty without a set that all have."""
    methods = {key for row in tables.values() for key in row if key != OPTIMISTIC}
    scores = judged_scores(tables, methods)
    ranks = rank_methods(list(scores.values())).ranks
    if not ranks or methods <= set(COMPARED):
        return ""
    named = [f"{find_method(name).label} {rank:.2f}" for name, rank in sorted(ranks.items(), key=lambda item: item[1])]
    return f"Mean ranks of all honest methods, on {len(scores)} sets ({', '.join(scores)}): {', '.join(named)}."


def protocol_table(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper) -> str:
    """The paper's net by the honest and by the optimistic protocol; empty where one of the two is missing."""
    tables = score_tables(plan, results, "accuracy")
    rows, gains = [], []
    for name, row in tables.items():
        if HONEST not in row or OPTIMISTIC not in row:
            continue
        gains.append(row[OPTIMISTIC].mean - row[HONEST].mean)
        published, lead = _published(paper, name)
        rows.append(
            [name, format_spread(row[HONEST]), format_spread(row[OPTIMISTIC]), f"{gains[-1]:+.3f}", published, lead]
        )
    if not rows:
        return ""
    rows.append(["mean", "", "", f"{np.mean(gains):+.3f}", "", ""])
    head = ["set", "chosen on TRAIN", "chosen on TEST", "gained by the choice", "paper", "published lead"]
    return markdown(head, rows)


def _published(paper: Paper, name: str) -> tuple[str, str]:
    """AnchorMoE's accuracy in the paper, and by how much it leads the best of the others there."""
    if name not in paper.classification:
        return "–", "–"
    figures = {key: value[0] for key, value in paper.classification[name]["accuracy"].items()}
    own = figures.pop("AnchorMoE")
    return f"{own:.3f}", f"{own - max(figures.values()):+.3f}"


def loss_table(plan: BenchmarkPlan, results: BenchmarkResults) -> str:
    """TRAIN loss of the last epoch, and how many there were: a large one means too few, or that it did not learn."""
    found = {
        method: {name: text for name in plan.sets if (text := _losses(entries_of(results.entries, name, method)))}
        for method in plan.methods
    }
    sets = [name for name in plan.sets if any(name in own for own in found.values())]
    rows = [[find_method(method).label, *[own.get(name, "–") for name in sets]] for method, own in found.items() if own]
    return markdown(["TRAIN loss at the end", *sets], rows) if rows else ""


def _losses(own: Sequence[Entry]) -> str:
    known = [one.facts for one in own if "train_loss" in one.facts]
    if not known:
        return ""
    worst = max(known, key=lambda facts: facts["train_loss"])
    return f"{worst['train_loss']:.3g} ({worst['epochs']})" + (" ▲" if worst["train_loss"] > LEARNED else "")


def draw_diagrams(plan: BenchmarkPlan, results: BenchmarkResults, folder: Path) -> list[Path]:
    """Critical-difference diagrams for accuracy and macro F1, as SVG and PNG."""
    written: list[Path] = []
    labels = {name: find_method(name).label for name in plan.methods}
    for metric in ("accuracy", "macro_f1"):
        tables = score_tables(plan, results, metric)
        ranking = rank_methods(list(judged_scores(tables, compared_methods(tables)).values()))
        if OWN not in ranking.ranks or len(ranking.ranks) < MIN_METHODS or ranking.sets < MIN_SETS:
            continue
        paths = (folder / f"ranks-{metric.replace('_', '-')}.svg", folder / f"ranks-{metric.replace('_', '-')}.png")
        draw_rank_diagram(ranking, compare_with_control(ranking, OWN), labels, METRICS[metric], paths)
        written += paths
    return written
