"""Writes benchmark results as Markdown pages; the paper's figures come from a data file."""

from datetime import date
from pathlib import Path

import yaml

from anchormoe.benchmark import ablation, faithfulness
from anchormoe.benchmark.classifiers_page import classifiers_report
from anchormoe.benchmark.explainers_page import explainers_report
from anchormoe.benchmark.report_page import compose_page, describe_run, outdated_note, titled
from anchormoe.benchmark.report_tables import (
    Paper,
    abstention_table,
    accuracy_table,
    calibration_table,
    channel_table,
    localization_table,
    markdown,
    omissions,
    out_of_fold_table,
    stability_table,
    times_table,
)
from anchormoe.benchmark.runner import BenchmarkPlan, BenchmarkResults
from anchormoe.errors import DataError
from anchormoe.metrics.faithfulness import TEST_CASES, TRAIN_CASES

ACCURACY_TEXT = """\
Accuracy on the official TEST part, mean ± standard deviation over seeds. Everything is selected on TRAIN and TEST is
read once; the paper chose its epochs on TEST. *Padded*: series are zero-padded at the end to max(9, longest TRAIN
length), longer TEST series are cut. *vs best baseline*: ours minus the best of the others, paired over seeds and cases,
± one standard error; ✓ means not worse by more than that.
"""
LOCALIZATION_TEXT = """\
AUPRC / IoU@K / Precision@K over patches of 16 steps with stride 8, on the first 120 correctly classified test cases; a
patch counts as evidence when any of its steps does (in the second table: when half of them do). Mean ± standard
deviation over seeds. The third table is over patches × channels: a motif is in one channel, and evidence that was read
from several channels together is divided equally among them; beside it the fall of the same model's score when one
channel of one patch is marked missing. The true evidence is never used in training.
"""
ABLATION_TEXT = f"""\
Accuracy on TEST and, after the slash, AUPRC of localization on the synthetic sets; mean over seeds. TRAIN is cut to
{ablation.TRAIN_CASES} cases. The last columns are the means over sets of the difference to the first row, ± one
standard error (accuracy paired over seeds and cases, AUPRC over sets and seeds). The defaults were chosen out-of-fold
on TRAIN, not by this page; it shows the effect of that choice.
"""
FAITHFULNESS_TEXT = f"""\
*Gap*: accuracy after removing the least relevant steps minus accuracy after removing the most relevant ones, mean over
10, 20, 30, 40 and 50 % of the valid steps, on up to {TEST_CASES} TEST cases. Steps are ranked by what they add to the
predicted class (*evidence*), by that minus its expectation over TRAIN (*centred*), by the fall of the same model's
score when a patch is removed (*occlusion*, one patch after the other, removed in the same way), and at random; equal
ones are drawn. ± is one standard error over cases and seeds. ✓: the evidence reaches its share of the best ranking's
Gap within one standard error, paired over cases and seeds. A robust model has a small Gap by every ranking, so the
comparison counts, not the size. Nothing is chosen by this page.

*Cancellation*: (Σ |contributions| + |context|) / |logit| of the predicted class on TEST, median / ninth decile, the
largest over seeds; 1 means that nothing cancels.
"""
RETENTION_TEXT = f"""\
*I(20)*: accuracy of a small convolutional net that is trained anew on the 20 % of the steps that a ranking puts first
(up to {TRAIN_CASES} TRAIN cases) and tested on those of TEST; *mask only*: the same net sees which steps were kept, but
none of their values. Where that is far above chance, places alone give the class away and I(20) means less. The paper's
figures are of its own model, with an evaluator and amounts that it does not state.
"""
STABILITY_TEXT = """\
Two windows that overlap should not tell two stories about the same seconds. TEST recordings are cut into windows that
share seven eighths of their steps; for consecutive windows with the same true and the same predicted state, the
evidence for that state (minus the mean over states) is correlated over the shared steps. *By step*: the median over
pairs, with the tenth percentile; ✓ where it is at least 0.9. *By patch*: the same for sums over every patch inside the
shared steps, since evidence is published in patches. *By channel*: over shared steps × channels. Mean ± deviation over
seeds. Models are trained on other recordings. pump, gearbox, patient and process are simulated.
"""


def read_paper(path: Path) -> Paper:
    """The data file with the paper's tables; without the file there are no figures."""
    if not path.is_file():
        return Paper()
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Paper(content["classification"], content["localization"], content["faithfulness"])
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: is not YAML") from error
    except (KeyError, TypeError) as error:
        raise DataError(f"{path}: needs the sections classification, localization and faithfulness") from error


def accuracy_report(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper, today: date) -> str:
    """The page for the UEA sets."""
    return compose_page(
        f"# {plan.title or 'Accuracy on the UEA sets'}",
        describe_run(plan, today),
        ACCURACY_TEXT,
        accuracy_table(plan, results, paper),
        calibration_table(plan, results),
        out_of_fold_table(plan, results),
        abstention_table(plan, results),
        times_table(plan, results),
        outdated_note(results),
        omissions(results),
    )


def localization_report(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper, today: date) -> str:
    """The page for the synthetic sets."""
    return compose_page(
        f"# {plan.title or 'Evidence localization on the synthetic sets'}",
        describe_run(plan, today),
        LOCALIZATION_TEXT,
        localization_table(plan, results, paper, "any_overlap"),
        "Half overlap:",
        localization_table(plan, results, Paper(), "half_overlap"),
        channel_table(plan, results),
        "Accuracy:",
        accuracy_table(plan, results, Paper()),
        calibration_table(plan, results),
        abstention_table(plan, results),
        times_table(plan, results),
        outdated_note(results),
        omissions(results),
    )


def ablation_report(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper, today: date) -> str:
    """The page of parts added and removed; the paper's figures are not on it."""
    tables = [
        f"## {title}\n\n" + markdown(found[0], found[1:])
        for title, rows in (("Recipe experts", ablation.EXPERTS), ("Recipe paper", ablation.PAPER))
        if (found := ablation.ablation_table(rows, plan, results))
    ]
    return compose_page(
        f"# {plan.title or 'Ablations'}",
        describe_run(plan, today),
        ABLATION_TEXT,
        *tables,
        outdated_note(results),
        omissions(results),
    )


def faithfulness_report(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper, today: date) -> str:
    """The page of Gap, I(20) and cancellation."""
    sections, retained = [], False
    for how, title in faithfulness.TITLES.items():
        shown = paper if how == "mean" else Paper()
        retention = faithfulness.retention_table(plan, results, shown, how)
        retained |= bool(retention)
        sections += [
            f"## Removed steps are {title}",
            f"Gap, and whether the evidence reaches {faithfulness.GOALS[how]:.0%} of the best ranking:",
            faithfulness.verdict_table(plan, results, how),
            "Gap by ranking:",
            faithfulness.gap_table(plan, results, shown, how),
            titled("I(20) / mask only:", retention),
        ]
    return compose_page(
        f"# {plan.title or 'Faithfulness of the evidence'}",
        describe_run(plan, today),
        FAITHFULNESS_TEXT,
        RETENTION_TEXT if retained else "*I(20)* has not been measured by these methods.",
        *sections,
        "## Cancellation",
        faithfulness.cancellation_table(plan, results),
        outdated_note(results),
        omissions(results),
    )


def stability_report(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper, today: date) -> str:
    """The page of stability; the paper's figures are not on it."""
    return compose_page(
        f"# {plan.title or 'Stability of the evidence'}",
        describe_run(plan, today),
        STABILITY_TEXT,
        stability_table(plan, results),
        outdated_note(results),
        omissions(results),
    )


REPORTS = {
    "explainers": explainers_report,
    "classifiers": classifiers_report,
    "stability": stability_report,
    "uea": accuracy_report,
    "synthetic": localization_report,
    "ablation": ablation_report,
    "faithfulness": faithfulness_report,
}
"""The page of each kind of benchmark."""
