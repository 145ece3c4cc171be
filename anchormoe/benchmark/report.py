"""Writes benchmark results as Markdown pages: every figure comes from the runs, the paper's from a data file."""

import os
import platform
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import yaml

from anchormoe.benchmark import ablation
from anchormoe.benchmark.report_tables import (
    Paper,
    absent,
    abstention_table,
    accuracy_table,
    calibration_table,
    localization_table,
    markdown,
    promise_table,
    times_table,
)
from anchormoe.benchmark.runner import Plan, Results
from anchormoe.errors import DataError

PACKAGES = ("anchormoe-agent", "aeon", "numpy", "scikit-learn", "torch")

ACCURACY_TEXT = """\
Accuracy on the official TEST part, mean ± deviation over seeds. All selection is on TRAIN and TEST is read once; the
paper chose its epochs on TEST. *Padded*: series zero-padded at the end to max(9, longest TRAIN length), longer TEST
series cut. *Against the better*: ours minus the better of the others, paired over seeds and cases, ± one standard
error; ✓ means at least level within it.
"""
LOCALIZATION_TEXT = """\
AUPRC / IoU@K / Precision@K over patches of 16 steps with stride 8, on the first 120 correctly classified test cases; a
patch is evidence when any of its steps is (further below: when half of them are). Mean ± deviation over seeds. Masks
are never used in training.
"""
ABLATION_TEXT = f"""\
Accuracy on TEST and, after the stroke, AUPRC of localization on the synthetic sets; mean over seeds. TRAIN is cut to
{ablation.TRAIN_CASES} cases. The last columns: means over sets of the difference to the first row, ± one standard
error (accuracy paired over seeds and cases, AUPRC over sets and seeds). What serves by default was chosen out-of-fold
on TRAIN, not by this page; it shows what that choice is worth.
"""


def read_paper(path: Path) -> Paper:
    """The data file with the paper's tables; a file that is not there gives no figures."""
    if not path.is_file():
        return Paper()
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        return Paper(content["classification"], content["localization"])
    except (KeyError, TypeError) as error:
        raise DataError(f"{path}: needs the sections classification and localization") from error


def accuracy_report(plan: Plan, results: Results, paper: Paper, today: date) -> str:
    """The page for the UEA sets."""
    return _page(
        f"# {plan.title or 'Accuracy on the UEA sets'}",
        facts_of_run(plan, today),
        ACCURACY_TEXT,
        accuracy_table(plan, results, paper),
        calibration_table(plan, results),
        promise_table(plan, results),
        abstention_table(plan, results),
        times_table(plan, results),
        absent(results),
    )


def localization_report(plan: Plan, results: Results, paper: Paper, today: date) -> str:
    """The page for the synthetic sets."""
    return _page(
        "# Evidence localization on the synthetic sets",
        facts_of_run(plan, today),
        LOCALIZATION_TEXT,
        localization_table(plan, results, paper, "any_overlap"),
        "Half overlap:",
        localization_table(plan, results, Paper(), "half_overlap"),
        "Accuracy:",
        accuracy_table(plan, results, Paper()),
        calibration_table(plan, results),
        abstention_table(plan, results),
        times_table(plan, results),
        absent(results),
    )


def ablation_report(plan: Plan, results: Results, paper: Paper, today: date) -> str:
    """The page of parts added and taken away; the paper's own figures have no place on it."""
    tables = [
        f"## {title}\n\n" + markdown(found[0], found[1:])
        for title, rows in (("Recipe experts", ablation.EXPERTS), ("Recipe paper", ablation.PAPER))
        if (found := ablation.table(rows, plan, results))
    ]
    return _page("# Ablations", facts_of_run(plan, today), ABLATION_TEXT, *tables, absent(results))


REPORTS = {"uea": accuracy_report, "synthetic": localization_report, "ablation": ablation_report}
"""The page of each kind of benchmark."""


def facts_of_run(plan: Plan, today: date) -> str:
    """What a reader needs to run it again."""
    seeds = ", ".join(map(str, plan.seeds))
    command = f"benchmark {plan.source}" + (f" --sets {','.join(plan.sets)}" if plan.named else "")
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return (
        f"Written on {today.isoformat()} by `anchormoe-agent {command}`; seeds {seeds}; {machine}.\n"
        "Versions: " + ", ".join(f"{name} {_version(name)}" for name in PACKAGES) + "."
    )


def _page(*pieces: str) -> str:
    return "\n\n".join(piece.strip() for piece in pieces if piece.strip()) + "\n"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "–"
