"""The tables of the result pages. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from anchormoe.benchmark.comparison import (
    Difference,
    Spread,
    entries_of,
    mean_and_deviation,
    mean_ranks,
    paired_difference,
)
from anchormoe.benchmark.ledger import Entry
from anchormoe.benchmark.methods import find_method
from anchormoe.benchmark.runner import BenchmarkPlan, BenchmarkResults

OWN = "anchormoe"
STABLE = 0.9
"""The goal for the median correlation between overlapping windows."""
MIN_TEST_CASES = 30
"""With fewer, one case is worth more than three percentage points: the difference gets no mark."""

PaperFigures = Mapping[str, Mapping[str, Mapping[str, list[float]]]]


@dataclass(frozen=True, slots=True)
class Paper:
    """The paper's figures by set, metric and method, as [mean, deviation]; empty without the file."""

    classification: PaperFigures = field(default_factory=dict)
    localization: PaperFigures = field(default_factory=dict)
    faithfulness: PaperFigures = field(default_factory=dict)


def accuracy_table(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper) -> str:
    """One row per set, then means and mean ranks over the sets that all methods have."""
    labels = [find_method(name).label for name in plan.methods]
    rows = [_accuracy_row(plan, results, paper, name) for name in plan.sets if name not in results.missing]
    quoted = [f"paper: {key}" for key in _quoted_methods(plan, paper)]
    head = ["set", "test cases", *quoted, *labels, "vs best baseline"]
    return markdown(head, [*rows, *_summary_rows(plan, results, paper)])


def _quoted_methods(plan: BenchmarkPlan, paper: Paper) -> tuple[str, ...]:
    """None where the paper has none of the sets."""
    return ("AnchorMoE", "MiniRocket") if any(name in paper.classification for name in plan.sets) else ()


def difference_to_best_baseline(plan: BenchmarkPlan, results: BenchmarkResults, set_name: str) -> Difference | None:
    """Ours minus the best of the others on one set; None where one of the two is missing."""
    others = [entries_of(results.entries, set_name, name) for name in plan.methods if not name.startswith(OWN)]
    known = [own for own in others if own]
    ours = entries_of(results.entries, set_name, OWN)
    if not known or not ours:
        return None
    return paired_difference(
        ours, max(known, key=lambda own: np.mean([one.metrics["accuracy"] for one in own])), results.truth
    )


def _accuracy_row(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper, name: str) -> list[str]:
    cases = next((one.metrics["n"] for one in results.entries if one.set_name == name and one.metrics), 0)
    spreads = [_accuracy(results, name, key) for key in plan.methods]
    quoted = [quote(paper.classification, name, "accuracy", key) for key in _quoted_methods(plan, paper)]
    return [
        name,
        str(cases),
        *quoted,
        *map(format_spread, spreads),
        _format_difference(difference_to_best_baseline(plan, results, name), cases),
    ]


def _accuracy(results: BenchmarkResults, set_name: str, key: str) -> Spread | None:
    return mean_and_deviation([one.metrics["accuracy"] for one in entries_of(results.entries, set_name, key)])


def _summary_rows(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper) -> list[list[str]]:
    tables = [
        {key: found.mean for key in plan.methods if (found := _accuracy(results, name, key))} for name in plan.sets
    ]
    complete = [(name, table) for name, table in zip(plan.sets, tables, strict=True) if len(table) == len(plan.methods)]
    if not complete:
        return []
    means = [f"{np.mean([table[key] for _, table in complete]):.4f}" for key in plan.methods]
    ranks = mean_ranks([table for _, table in complete])
    quoted = [_quoted_mean(paper, [name for name, _ in complete], key) for key in _quoted_methods(plan, paper)]
    return [
        [f"mean of the {len(complete)} sets with all methods", "", *quoted, *means, ""],
        ["mean rank", "", *[""] * len(quoted), *[f"{ranks[key]:.2f}" for key in plan.methods], ""],
    ]


def _quoted_mean(paper: Paper, names: Sequence[str], key: str) -> str:
    if not names or any(name not in paper.classification for name in names):
        return "–"
    return f"{np.mean([paper.classification[name]['accuracy'][key][0] for name in names]):.4f}"


def calibration_table(plan: BenchmarkPlan, results: BenchmarkResults) -> str:
    """For methods with real probabilities; empty when none has."""
    rows = _rows(plan, results, _calibration_row)
    head = [
        "set",
        "method",
        "macro F1",
        "log loss",
        "Brier",
        "ECE (300 cases and more)",
        "largest residual",
    ]
    return _titled("Probabilities:", head, rows)


def _calibration_row(results: BenchmarkResults, set_name: str, key: str) -> list[str] | None:
    own = [one.metrics for one in entries_of(results.entries, set_name, key) if "nll" in one.metrics]
    if not own:
        return None
    figures = [format_spread(mean_and_deviation([one[name] for one in own])) for name in ("macro_f1", "nll", "brier")]
    errors = [one["ece"] for one in own if one["ece"] is not None]
    residuals = [one["largest_residual"] for one in own if "largest_residual" in one]
    largest = f"{max(residuals):.1e}" if residuals else "–"
    return [set_name, find_method(key).label, *figures, format_spread(mean_and_deviation(errors)), largest]


def out_of_fold_table(plan: BenchmarkPlan, results: BenchmarkResults) -> str:
    """Out-of-fold figures on TRAIN beside those on TEST; empty where no method has them."""
    rows = _rows(plan, results, _out_of_fold_row)
    head = [
        "set",
        "method",
        "accuracy out-of-fold",
        "accuracy on TEST",
        "log loss out-of-fold",
        "log loss on TEST",
        "weights in the blend",
    ]
    title = "Out-of-fold on TRAIN, compared with TEST:"
    return _titled(title, head, rows)


def _out_of_fold_row(results: BenchmarkResults, set_name: str, key: str) -> list[str] | None:
    own = [one for one in entries_of(results.entries, set_name, key) if "out_of_fold" in one.facts]
    if not own:
        return None
    figures = [
        format_spread(mean_and_deviation([part[name] for part in parts]))
        for name in ("accuracy", "nll")
        for parts in ([one.facts["out_of_fold"] for one in own], [one.metrics for one in own])
    ]
    return [set_name, find_method(key).label, *figures, _mean_weights([one.facts.get("weights", {}) for one in own])]


def _mean_weights(weights: Sequence[Mapping[str, float]]) -> str:
    """Of the sources in the blend, over runs."""
    names = sorted(set().union(*weights))
    return ", ".join(f"{name} {np.mean([one.get(name, 0.0) for one in weights]):.2f}" for name in names) or "–"


def abstention_table(plan: BenchmarkPlan, results: BenchmarkResults) -> str:
    """How often methods answer `unknown`, and their accuracy elsewhere; empty if none can abstain."""
    rows = _rows(plan, results, _abstention_row)
    head = ["set", "method", "unknown on TEST", "accuracy of the answers", "by rule on TEST", "by rule out-of-fold"]
    return _titled("Unknown (out-of-fold each rule by itself; on TEST the first that fires):", head, rows)


def _abstention_row(results: BenchmarkResults, set_name: str, key: str) -> list[str] | None:
    own = [one for one in entries_of(results.entries, set_name, key) if "abstention" in one.metrics]
    if not own:
        return None
    figures = [one.metrics["abstention"] for one in own]
    answered = [one["selective_accuracy"] for one in figures if one["selective_accuracy"] is not None]
    return [
        set_name,
        find_method(key).label,
        format_spread(mean_and_deviation([one["rate"] for one in figures])),
        format_spread(mean_and_deviation(answered)),
        _mean_rates([one["by_rule"] for one in figures]),
        _mean_rates([one.facts.get("abstention_rates", {}) for one in own]),
    ]


def _mean_rates(rates: Sequence[Mapping[str, float]]) -> str:
    """Over runs; a rule that never fires is left out."""
    means = {name: np.mean([one.get(name, 0.0) for one in rates]) for name in sorted(set().union(*rates))}
    return ", ".join(f"{name} {mean:.3f}" for name, mean in means.items() if mean > 0) or "–"


def times_table(plan: BenchmarkPlan, results: BenchmarkResults) -> str:
    """Mean seconds of each method on each set."""
    run = {one.set_name for one in results.entries if not one.skipped}
    rows = [
        [name, *[_seconds(entries_of(results.entries, name, key)) for key in plan.methods]]
        for name in plan.sets
        if name in run
    ]
    head = ["set", *[find_method(key).label for key in plan.methods]]
    return "Seconds to fit / to predict TEST (mean; other processes may have run at the same time):\n\n" + markdown(
        head, rows
    )


def _seconds(own: Sequence[Entry]) -> str:
    if not own:
        return "–"
    return f"{np.mean([one.fit_s for one in own]):.1f} / {np.mean([one.predict_s for one in own]):.1f}"


def localization_table(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper, kind: str) -> str:
    """`kind` is `any_overlap` or `half_overlap`."""
    keys = [
        key
        for key in plan.methods
        if any("localization" in one.metrics for one in results.entries if one.method == key)
    ]
    rows = [
        [name, _quoted_localization(paper, name), *[_located(results, name, key, kind) for key in keys]]
        for name in plan.sets
        if name not in results.missing
    ]
    return markdown(["set", "paper: AnchorMoE", *[find_method(key).label for key in keys]], rows)


def channel_table(plan: BenchmarkPlan, results: BenchmarkResults) -> str:
    """AUPRC over patches × channels, of the evidence and of occlusion of the same model; empty where none has it."""
    rows = _rows(plan, results, _channel_row)
    return _titled("Patches × channels, AUPRC:", ["set", "method", "evidence", "occlusion by channel"], rows)


def _channel_row(results: BenchmarkResults, set_name: str, key: str) -> list[str] | None:
    own = [one.metrics.get("localization", {}) for one in entries_of(results.entries, set_name, key)]
    known = [one for one in own if "channels" in one]
    if not known:
        return None
    figures = [mean_and_deviation([one[name]["auprc"] for one in known]) for name in ("channels", "occlusion")]
    return [set_name, find_method(key).label, *map(format_spread, figures)]


def stability_table(plan: BenchmarkPlan, results: BenchmarkResults) -> str:
    """Correlations of the evidence of overlapping windows, means over seeds."""
    head = ["set", "method", "accuracy", "by step", "tenth percentile", "by patch", "by channel", "pairs", "≥ 0.9"]
    return markdown(head, _rows(plan, results, _stability_row))


def _stability_row(results: BenchmarkResults, set_name: str, key: str) -> list[str] | None:
    own = [one.metrics for one in entries_of(results.entries, set_name, key) if "stability" in one.metrics]
    known = [one["stability"] for one in own if one["stability"]["median"] is not None]
    if not known:
        return None
    names = ("median", "p10", "patch_median", "channel_median")
    spreads = [mean_and_deviation([one[name] for one in known if one[name] is not None]) for name in names]
    return [
        set_name,
        find_method(key).label,
        format_spread(mean_and_deviation([one["accuracy"] for one in own])),
        *map(format_spread, spreads),
        str(sum(one["pairs"] for one in known)),
        "✓" if np.mean([one["median"] for one in known]) >= STABLE else "✗",
    ]


def _located(results: BenchmarkResults, set_name: str, key: str, kind: str) -> str:
    own = [
        one.metrics["localization"][kind]
        for one in entries_of(results.entries, set_name, key)
        if "localization" in one.metrics
    ]
    return " / ".join(
        format_spread(mean_and_deviation([one[name] for one in own])) for name in ("auprc", "iou", "precision")
    )


def _quoted_localization(paper: Paper, set_name: str) -> str:
    return " / ".join(quote(paper.localization, set_name, name, "AnchorMoE") for name in ("auprc", "iou", "precision"))


def omissions(results: BenchmarkResults) -> str:
    """Sets that are missing and runs that were skipped, each with its reason."""
    lines = [f"- {name}: {reason}" for name, reason in sorted(results.missing.items())]
    lines += [
        f"- {name}{seeds}, {'; '.join(labels)}: not run, {reason}"
        for (name, seeds, reason), labels in _skipped(results).items()
    ]
    return "\n".join(["Not in the tables:", "", *lines]) if lines else ""


def _skipped(results: BenchmarkResults) -> dict[tuple[str, str, str], list[str]]:
    """Labels of methods by set, seeds (nothing where it is every seed) and reason."""
    every = {one.seed for one in results.entries}
    seeds: dict[tuple[str, str, str], list[int]] = {}
    for one in sorted(results.entries, key=lambda one: (one.set_name, one.method, one.seed)):
        if one.skipped:
            seeds.setdefault((one.set_name, one.method, one.skipped), []).append(one.seed)
    found: dict[tuple[str, str, str], list[str]] = {}
    for (name, method, reason), own in seeds.items():
        which = "" if set(own) == every else f", seed {', '.join(map(str, own))}"
        found.setdefault((name, which, reason), []).append(find_method(method).label)
    return found


def _format_difference(difference: Difference | None, cases: int) -> str:
    if difference is None:
        return "–"
    text = f"{difference.mean:+.3f} ± {difference.standard_error:.3f}"
    if cases < MIN_TEST_CASES:
        return f"{text} (only {cases} cases)"
    return f"{text} {'✓' if difference.not_worse else '✗'}"


def format_spread(value: Spread | None) -> str:
    """Mean ± deviation; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value.mean:.3f} ± {value.deviation:.3f}" if value.count > 1 else f"{value.mean:.3f}"


def quote(figures: PaperFigures, set_name: str, metric: str, key: str) -> str:
    """A figure of the paper, or a dash."""
    if set_name not in figures:
        return "–"
    mean, deviation = figures[set_name][metric][key]
    return f"{mean:.3f} ± {deviation:.3f}"


def _rows(
    plan: BenchmarkPlan, results: BenchmarkResults, row_of: Callable[[BenchmarkResults, str, str], list[str] | None]
) -> list[list[str]]:
    """For every method and set for which there is a row."""
    found = (row_of(results, name, key) for key in plan.methods for name in plan.sets)
    return [row for row in found if row is not None]


def _titled(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Nothing where there are no rows."""
    return f"{title}\n\n{markdown(head, rows)}" if rows else ""


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
