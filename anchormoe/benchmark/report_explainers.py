"""The page of the explainers: localization, Gap and I(20), time, and where our evidence is not the best. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anchormoe.benchmark.comparison import Spread, entries_of, mean_and_deviation
from anchormoe.benchmark.explainer_methods import EVIDENCE, MODELS, method_name
from anchormoe.benchmark.explainers.registry import EXPLAINERS
from anchormoe.benchmark.ledger import Entry
from anchormoe.benchmark.report_tables import Paper, PaperFigures, format_spread, markdown
from anchormoe.benchmark.runner import BenchmarkPlan, BenchmarkResults
from anchormoe.metrics.gap import SHARES

CHANCE = "chance"
PRINTED_WHOLE = 10
"""Milliseconds from which on no fraction is printed."""
SAME = 1e-5
_DIFFERENCE = "difference_to_input_gradient"
FIGURES = ("auprc", "iou", "precision")
PAPER_NAMES = {method_name("paper", one.name): one.paper_name for one in EXPLAINERS if one.paper_name} | {
    method_name("paper", EVIDENCE): "AnchorMoE"
}
"""Our methods and the paper's columns."""
RULES = {
    "any": "Our rule: a patch counts where any of its steps does, mean over cases; over patches",
    "any_channels": "Our rule, over patches × channels",
    "pooled": "The paper's rule (inferred): 5 of 16 steps, pooled over cases; over patches (the paper's figure)",
    "pooled_channels": "The paper's rule, over patches × channels",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One explainer of one model."""

    method: str
    model: str
    label: str


def rows_of(plan: BenchmarkPlan) -> list[Row]:
    """In the order of models, the evidence first."""
    labels = {EVIDENCE: "AnchorMoE evidence"} | {one.name: one.label for one in EXPLAINERS}
    return [
        Row(method_name(model, name), model, label)
        for model in MODELS
        for name, label in labels.items()
        if method_name(model, name) in plan.methods
    ]


def localization_tables(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper) -> list[str]:
    """AUPRC / IoU@K / Precision@K by rule; empty without a set whose evidence is known."""
    sets = [name for name in plan.sets if _entries_with(results, name, "localization")]
    if not sets:
        return []
    sections = []
    for rule, title in RULES.items():
        quoted = paper.localization if rule == "pooled" else {}

        def cell(name: str, row: Row, rule: str = rule, quoted: PaperFigures = quoted) -> str:
            own = [one.metrics["localization"][rule] for one in _entries(results, name, row, "localization")]
            cells = [_with_quote(_mean(own, figure), quoted, name, figure, row) for figure in FIGURES]
            return " / ".join(cells) if own else "–"

        sections += [f"{title}:", _table(plan, results, sets, cell)]
    return sections


def summary_table(plan: BenchmarkPlan, results: BenchmarkResults) -> str:
    """Means over the sets that have been run, one row per explainer; a set counts where every row has it."""
    rows = [row for row in rows_of(plan) if any(one.method == row.method and one.metrics for one in results.entries)]
    columns: list[tuple[str, str, Callable[[Entry], float]]] = [
        ("AUPRC, patches", "localization", lambda one: one.metrics["localization"]["any"]["auprc"]),
        ("AUPRC, patches × channels", "localization", lambda one: one.metrics["localization"]["any_channels"]["auprc"]),
        ("Gap", "gap", lambda one: one.metrics["gap"]["value"]),
        ("I(20)", "retention", lambda one: one.metrics["retention"]["i20"]),
        ("mask only", "retention", lambda one: one.metrics["retention"]["mask_only"]),
    ]
    used = [(title, key, figure, _common_sets(plan, results, rows, key)) for title, key, figure in columns]
    known = [one for one in used if one[3]]
    body = [
        [
            MODELS[row.model],
            row.label + _mark(row, results),
            *[_mean_over_sets(results, row, key, figure, sets) for _, key, figure, sets in known],
            _mean_time(results, row),
        ]
        for row in rows
    ]
    head = [f"{title} ({', '.join(map(_set, sets))})" for title, _, _, sets in known]
    return markdown(["explained", "explainer", *head, "ms per case"], body) if known else ""


def _common_sets(plan: BenchmarkPlan, results: BenchmarkResults, rows: Sequence[Row], key: str) -> list[str]:
    """Sets that most rows have: one slow explainer that is still missing must not empty a column."""
    counts = {name: sum(bool(_entries(results, name, row, key)) for row in rows) for name in plan.sets}
    return [name for name, count in counts.items() if count and count >= max(counts.values()) - 2]


def _mean_over_sets(
    results: BenchmarkResults, row: Row, key: str, figure: Callable[[Entry], float], sets: Sequence[str]
) -> str:
    """A dash where one of the sets is missing."""
    means = [[figure(one) for one in _entries(results, name, row, key)] for name in sets]
    return f"{np.mean([np.mean(own) for own in means]):.3f}" if all(means) else "–"


def _mean_time(results: BenchmarkResults, row: Row) -> str:
    own = [one for one in results.entries if one.method == row.method and one.facts.get("explained")]
    return _milliseconds(float(np.mean([1e3 * one.predict_s / one.facts["explained"] for one in own])))


def _milliseconds(value: float) -> str:
    return f"{value:.0f}" if value >= PRINTED_WHOLE else f"{value:.2g}"


def absolute_table(plan: BenchmarkPlan, results: BenchmarkResults) -> str:
    """AUPRC by our rule where signed values are taken without their sign; empty without any."""
    sets = [name for name in plan.sets if _entries_with(results, name, "localization")]

    def cell(name: str, row: Row) -> str:
        own = [one.metrics["absolute"]["localization"]["any"] for one in _entries(results, name, row, "absolute")]
        return format_spread(_mean(own, "auprc"))

    return _table(plan, results, sets, cell) if sets else ""


def gap_table(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper) -> str:
    """Gap, mean over the shares removed, with the paper's in brackets."""
    sets = _real_sets(plan, results)

    def cell(name: str, row: Row) -> str:
        own = [one.metrics["gap"] for one in _entries(results, name, row, "gap")]
        return _with_quote(_mean(own, "value"), paper.faithfulness, name, "gap", row)

    return _table(plan, results, sets, cell) if sets else ""


def shares_table(plan: BenchmarkPlan, results: BenchmarkResults) -> str:
    """Gap at every share removed, mean over seeds."""
    body = []
    for name in _real_sets(plan, results):
        for row in rows_of(plan):
            own = [one.metrics["gap"]["by_share"] for one in _entries(results, name, row, "gap")]
            if own:
                means = np.mean(own, axis=0)
                body.append([_set(name), MODELS[row.model], row.label, *[f"{value:.3f}" for value in means]])
    head = ["set", "explained", "explainer", *[f"{share:.0%}" for share in SHARES]]
    return markdown(head, body) if body else ""


def retention_table(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper) -> str:
    """I(20) / mask only, with the paper's I(20) in brackets."""
    sets = [name for name in plan.sets if _entries_with(results, name, "retention")]

    def cell(name: str, row: Row) -> str:
        own = [one.metrics["retention"] for one in _entries(results, name, row, "retention")]
        if not own:
            return "–"
        control = _mean(own, "mask_only")
        return f"{_with_quote(_mean(own, 'i20'), paper.faithfulness, name, 'i20', row)} / {format_spread(control)}"

    return _table(plan, results, sets, cell) if sets else ""


def times_table(plan: BenchmarkPlan, results: BenchmarkResults) -> str:
    """Milliseconds per case, and seconds to prepare."""

    def cell(name: str, row: Row) -> str:
        own = [one for one in entries_of(results.entries, name, row.method) if one.facts.get("explained")]
        if not own:
            return "–"
        each = float(np.mean([1e3 * one.predict_s / one.facts["explained"] for one in own]))
        prepared = np.mean([one.fit_s for one in own])
        return _milliseconds(each) + (f" (+ {prepared:.0f} s)" if prepared >= 1 else "")

    sets = [name for name in plan.sets if name not in results.missing]
    return _table(plan, results, sets, cell)


def accuracy_table(plan: BenchmarkPlan, results: BenchmarkResults) -> str:
    """Of the models that are explained."""
    sets = [name for name in plan.sets if name not in results.missing]
    body = []
    for model, label in MODELS.items():
        own = [entries_of(results.entries, name, method_name(model, EVIDENCE)) for name in sets]
        body.append([label, *[format_spread(_mean([one.metrics for one in found], "accuracy")) for found in own]])
    return markdown(["model", *map(_set, sets)], body)


def soundness_table(plan: BenchmarkPlan, results: BenchmarkResults) -> str:
    """Whether DeepLIFT is DeepLIFT: its convergence delta beside what it should add up to."""
    method = method_name("paper", "deeplift")
    body = []
    for name in plan.sets:
        own = [one.facts for one in entries_of(results.entries, name, method) if "of" in one.facts]
        if own:
            delta, whole, apart = (
                float(np.mean([one[key] for one in own])) for key in ("convergence_delta", "of", _DIFFERENCE)
            )
            same = "**= Input × Gradient**" if apart < SAME else f"differs by {apart:.2g}"
            body.append([_set(name), f"{delta:.2f}", f"{whole:.2f}", same])
    head = ["set", "\\|sum − (u(x) − u(mean))\\|", "\\|u(x) − u(mean)\\|", "beside Input × Gradient"]
    return markdown(head, body) if body else ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Our evidence against the best other explainer in one column; `level`: within one standard error, or better."""

    column: str
    ours: float
    best: str
    theirs: float
    error: float

    @property
    def level(self) -> bool:
        return self.ours >= self.theirs - self.error


def verdicts(plan: BenchmarkPlan, results: BenchmarkResults, model: str) -> list[Verdict]:
    """The evidence of a model against the explainers of the same model and, for ours, also against those of the other.

    Gap is a property of model and ranking (a robust model has a small one by every ranking): never across models.
    """
    columns: list[tuple[str, str, Callable[[Entry], tuple[float, float]], bool]] = [
        ("AUPRC, patches", "localization", lambda one: _of_cases(one, "any"), False),
        ("AUPRC, patches × channels", "localization", lambda one: _of_cases(one, "any_channels"), False),
        ("Gap", "gap", lambda one: (one.metrics["gap"]["value"], one.metrics["gap"]["error"]), True),
        ("I(20)", "retention", lambda one: (one.metrics["retention"]["i20"], one.metrics["retention"]["error"]), False),
    ]
    found = []
    for name in plan.sets:
        for title, key, figure, within in columns:
            rows = [row for row in rows_of(plan) if row.model == model or (model == "joint" and not within)]
            values = {row: _figure_over_seeds(results, name, row, key, figure) for row in rows}
            known = {row: value for row, value in values.items() if value is not None}
            if one := _verdict(f"{_set(name)}: {title}", known, method_name(model, EVIDENCE)):
                found.append(one)
    return found


def verdict_table(found: Sequence[Verdict]) -> str:
    body = [
        [one.column, f"{one.ours:.3f}", f"{one.best} {one.theirs:.3f}", f"{one.ours - one.theirs:+.3f}",
         f"{one.error:.3f}", "✓" if one.level else "✗"]
        for one in found
    ]  # fmt: skip
    head = ["column", "evidence", "best other", "difference", "standard error", "best or level"]
    return markdown(head, body) if body else ""


def _figure_over_seeds(
    results: BenchmarkResults, name: str, row: Row, key: str, figure: Callable[[Entry], tuple[float, float]]
) -> tuple[float, float] | None:
    """Mean and standard error; None for chance and where there is no run."""
    own = [figure(one) for one in _entries(results, name, row, key)]
    if not own or row.method.endswith(CHANCE):
        return None
    mean, error = np.mean(own, axis=0)
    return float(mean), float(error / np.sqrt(len(own)))


def _verdict(column: str, values: Mapping[Row, tuple[float, float]], evidence: str) -> Verdict | None:
    """None where the evidence or every other explainer is missing."""
    own = next((value for row, value in values.items() if row.method == evidence), None)
    others = {row: value for row, value in values.items() if row.method != evidence}
    if own is None or not others:
        return None
    best = max(others, key=lambda row: others[row][0])
    error = float(np.hypot(own[1], others[best][1]))
    return Verdict(column, own[0], f"{best.label} of {MODELS[best.model]}", others[best][0], error)


def _of_cases(entry: Entry, rule: str) -> tuple[float, float]:
    """Mean and standard error of the cases' average precision."""
    by_case = np.asarray(entry.metrics["localization"][rule]["by_case"])
    return float(by_case.mean()), float(by_case.std(ddof=1) / np.sqrt(len(by_case))) if len(by_case) > 1 else 0.0


def _table(plan: BenchmarkPlan, results: BenchmarkResults, sets: Sequence[str], cell: Callable[[str, Row], str]) -> str:
    """One row per explainer that has any figure."""
    body = []
    for row in rows_of(plan):
        cells = [cell(name, row) for name in sets]
        if any(one != "–" for one in cells):
            body.append([MODELS[row.model], row.label + _mark(row, results), *cells])
    return markdown(["explained", "explainer", *map(_set, sets)], body)


def _mark(row: Row, results: BenchmarkResults) -> str:
    """Where DeepLIFT is nothing else."""
    differences = [
        one.facts[_DIFFERENCE] for one in results.entries if one.method == row.method and _DIFFERENCE in one.facts
    ]
    return " (= Input × Gradient)" if differences and max(differences) < SAME else ""


def _with_quote(own: Spread | None, quoted: PaperFigures, name: str, figure: str, row: Row) -> str:
    """Ours, with the paper's figure in brackets where it has one."""
    text, theirs = format_spread(own), PAPER_NAMES.get(row.method)
    if own is None or theirs is None or theirs not in quoted.get(_set(name), {}).get(figure, {}):
        return text
    return f"{text} ({quoted[_set(name)][figure][theirs][0]:.3f})"


def _mean(own: Sequence[Mapping[str, Any]], figure: str) -> Spread | None:
    return mean_and_deviation([float(one[figure]) for one in own])


def _entries(results: BenchmarkResults, name: str, row: Row, key: str) -> list[Entry]:
    return [one for one in entries_of(results.entries, name, row.method) if key in one.metrics]


def _entries_with(results: BenchmarkResults, name: str, key: str) -> bool:
    return any(one.set_name == name and key in one.metrics for one in results.entries)


def _real_sets(plan: BenchmarkPlan, results: BenchmarkResults) -> list[str]:
    return [name for name in plan.sets if _entries_with(results, name, "gap")]


def _set(name: str) -> str:
    return name.partition(":")[2] or name
