"""The page of the paper's classifiers beside ours."""

import textwrap
from datetime import date

from anchormoe.benchmark import report_classifiers as classifiers
from anchormoe.benchmark.networks.schedule import CHEAP, LINEAR, LONG_STEPS, SHORTER, USUAL
from anchormoe.benchmark.paper_ranks import describe_paper_ranks
from anchormoe.benchmark.report_page import compose_page, describe_run, outdated_note, section, titled
from anchormoe.benchmark.report_tables import Paper, omissions, times_table
from anchormoe.benchmark.runner import BenchmarkPlan, BenchmarkResults

TERMS_TEXT = f"""\
Every network is trained on the same terms: channels scaled by TRAIN, series padded at the end to TRAIN's longest, RAdam
from .001 with cosine decay, batches of {USUAL.batch} ({USUAL.long_batch} beyond {LONG_STEPS:,} steps), the last
weights, no look at TEST. Epochs are {USUAL.visits:,} visits of cases or {USUAL.visited_steps:,} steps of series,
whichever comes first, but {USUAL.min_epochs} to {USUAL.max_epochs} epochs. DLinear, which is cheap, gets
{LINEAR.max_epochs}; LightTS {CHEAP.visits:,} visits, but {CHEAP.min_epochs} to {CHEAP.max_epochs} epochs; MPTSNet
{SHORTER.visits:,} visits or {SHORTER.visited_steps:,} steps, but {SHORTER.min_epochs} to {SHORTER.max_epochs} epochs.
How many each got, and the TRAIN loss it ended with, are below.

*MPTSNet* is at reduced width (64 instead of 1,024, three periods instead of five) and trained less: it is not the
authors' network. All eight are written from their papers' equations; deviations from the authors' code stand in their
files. *AnchorMoE (ours)* is the recipe `{{0}}`; *recipe paper* is the paper's own network with epochs chosen on TRAIN,
and *optimistic* the same by the paper's protocol. Mean ± standard deviation over seeds; one seed has none. Bold is the
best honest figure.
"""
PAPER_TEXT = """\
What the paper's own tables leave open, found by reading its release and by computing from its figures:

1. TEST chooses the model: its code keeps the epoch that is best on TEST, and so do the releases that its baselines'
   figures come from. An honest protocol must be expected to come out lower; the table of protocols below says by how
   much for its own network.
2. F1 is weighted by class size in the release and called macro in the paper; both are below.
"""
PROTOCOL_TEXT = """\
The same network, fitted by the same code: epochs chosen on folds of TRAIN, and the epoch that is best on TEST, as the
paper's release has it. The difference is what that choice is worth. *Published lead* is the paper's AnchorMoE minus its
best baseline on that set.
"""
NOT_AT_HAND = (
    "DuckDuckGeese", "FaceDetection", "Heartbeat", "InsectWingbeat", "PEMS-SF", "SelfRegulationSCP2",
    "SpokenArabicDigits",
)  # fmt: skip
"""The paper's sets that this project could not get; who has them can run them."""
COUNTS = ("None", "One", "Two", "Three", "Four", "Five", "Six", "Seven")
LINE = 120


def classifiers_report(plan: BenchmarkPlan, results: BenchmarkResults, paper: Paper, today: date) -> str:
    """Terms and the paper's own facts first; then accuracy and F1 with ranks, tests and the paper's figures."""
    sections = []
    for metric, title in classifiers.METRICS.items():
        tables = classifiers.score_tables(plan, results, metric)
        sections += [f"## {title}", classifiers.score_table(plan, tables)]
        if metric != "weighted_f1":
            sections += [
                classifiers.rank_section(tables),
                classifiers.all_ranks(tables),
                classifiers.beside_paper(plan, tables, paper, metric),
            ]
    protocols = classifiers.protocol_table(plan, results, paper)
    return compose_page(
        f"# {plan.title or 'Classifiers of the paper, run by us'}",
        describe_run(plan, today),
        TERMS_TEXT.format(plan.effort.recipe),
        titled("In short, on the sets that all of them have:", classifiers.summary_table(plan, results, paper)),
        "## Before anything was run",
        PAPER_TEXT + describe_paper_ranks(paper, [name for name in plan.sets if name not in results.missing]),
        *sections,
        "## What choosing on TEST is worth" if protocols else "",
        PROTOCOL_TEXT if protocols else "",
        protocols,
        "## How well they learned",
        f"The largest over seeds, and in brackets the epochs. ▲: above {classifiers.LEARNED:g}; the schedule was too "
        "short, or the network did not learn TRAIN, and its figure is not its best.",
        classifiers.loss_table(plan, results),
        times_table(plan, results),
        section("## What is missing", "", _sets_not_at_hand(results), outdated_note(results), omissions(results)),
    )


def _sets_not_at_hand(results: BenchmarkResults) -> str:
    """Nothing where all of the paper's sets have been run."""
    run = {one.set_name for one in results.entries if not one.skipped}
    absent = [name for name in NOT_AT_HAND if name not in run]
    told = (
        f"{COUNTS[len(absent)]} of the paper's eighteen sets {'is' if len(absent) == 1 else 'are'} not at hand "
        f"({', '.join(absent)}): their configurations are tested on data of their shape only."
    )
    return textwrap.fill(told, LINE, break_on_hyphens=False) if absent else ""
