"""The whole comparison, classifiers and explainers, from made-up data to pages and pictures, in under a minute."""

import json
import re
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from anchormoe.benchmark import (  # importing them registers their methods
    baselines,  # noqa: F401
    explainer_methods,
    network_methods,
    recipe_methods,  # noqa: F401
)
from anchormoe.benchmark.explainers import dynamask, fit, timex
from anchormoe.benchmark.ledger import Ledger
from anchormoe.benchmark.methods import Effort
from anchormoe.benchmark.networks import schedule
from anchormoe.benchmark.report import REPORTS, read_paper
from anchormoe.benchmark.report_classifiers import draw_diagrams
from anchormoe.benchmark.runner import OVER_BUDGET, BenchmarkPlan, BenchmarkResults, run_benchmark
from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset, Split
from anchormoe.data.synthetic import DESIGNS, generate
from anchormoe.metrics import evaluator_net
from anchormoe.paper import settings as paper_settings

PAPER = Path(__file__).parents[4] / "configs" / "paper_results.yaml"
TODAY = date(2026, 11, 18)
STEPS = 64
"""Half of the usual ones: the first motif of every case is inside."""
CLASSIFIERS = (
    *network_methods.NETWORKS, "minirocket", "multirocket-hydra", "anchormoe", "anchormoe-paper",
    "anchormoe-paper-optimistic",
)  # fmt: skip
COMPILED = ("minirocket", "multirocket-hydra", "anchormoe")
"""They compile on a new machine, which is not what is timed."""
LIMIT_S = 60


def _part(cases: int, *, seed: int, known: bool) -> Dataset:
    made = generate(DESIGNS["distractor"], cases, seed=seed)
    x, truth = made.x[:, :, :STEPS], made.truth[:, :, :STEPS]
    return Dataset(
        "made up", Cases.from_arrays(x), made.y, ("a", "b", "c"), ("w", "x", "y", "z"), ("",) * 4,
        truth=truth if known else None,
    )  # fmt: skip


def _split(name: str, seed: int) -> Split:
    known, offset = name.startswith("synthetic"), len(name)
    return Split(_part(30, seed=offset, known=known), _part(18, seed=offset + 1, known=known))


@pytest.fixture
def short_work(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every schedule cut to a few updates: whether it all works is the question, not how well."""
    monkeypatch.setattr(schedule.Schedule, "epochs", lambda self, cases, steps: 1)
    monkeypatch.setattr(paper_settings, "_epochs", lambda cases, batch: 2)
    for module, name, value in (
        (dynamask, "UPDATES", 2), (fit, "EPOCHS", 1), (fit, "MOST_STEPS", 8), (timex, "EPOCHS", 1),
        (evaluator_net, "UPDATES", 2),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    yield
    explainer_methods._KEPT.clear()


def _run(source: str, sets: tuple[str, ...], methods: tuple[str, ...], ledger: Path) -> BenchmarkResults:
    plan = BenchmarkPlan(source, sets, methods, (0,), Effort(profile="fast"))
    return run_benchmark(plan, Ledger(ledger), _split)


def _page(source: str, sets: tuple[str, ...], methods: tuple[str, ...], results: BenchmarkResults) -> str:
    plan = BenchmarkPlan(source, sets, methods, (0,), Effort(profile="fast"))
    return REPORTS[source](plan, results, read_paper(PAPER), TODAY)


@pytest.mark.slow
@pytest.mark.usefixtures("short_work")
def test_the_whole_comparison_runs_on_tiny_data(tmp_path: Path) -> None:
    _run("classifiers", ("NATOPS",), COMPILED, tmp_path / "compiled.jsonl")
    started = time.process_time()
    real, explained = ("NATOPS", "Cricket"), ("synthetic:distractor", "uea:NATOPS")
    classified = _run("classifiers", real, CLASSIFIERS, tmp_path / "classifiers.jsonl")
    told = _run("explainers", explained, explainer_methods.METHODS, tmp_path / "explainers.jsonl")
    assert not [one.skipped for one in (*classified.entries, *told.entries) if one.skipped]
    assert len(classified.entries) == 2 * len(CLASSIFIERS)
    assert len(told.entries) == 2 * len(explainer_methods.METHODS)

    page = _page("classifiers", real, CLASSIFIERS, classified)
    for expected in ("two-sided", "chosen on TEST", "MPTSNet (reduced width)", "p Wilcoxon–Holm"):
        assert expected in page
    plan = BenchmarkPlan("classifiers", real, CLASSIFIERS, (0,), Effort(profile="fast"))
    assert len(draw_diagrams(plan, classified, tmp_path)) == 4

    page = _page("explainers", explained, explainer_methods.METHODS, told)
    for expected in (
        "**= Input × Gradient**",
        "DeepLIFT (= Input × Gradient)",
        "mask only",
        "patches × channels",
        "| 50% |",
        "TimeX",
        "best or level",
    ):
        assert expected in page
    assert time.process_time() - started < LIMIT_S

    again = _run("explainers", explained, explainer_methods.METHODS, tmp_path / "explainers.jsonl")
    assert [one.metrics for one in again.entries] == [one.metrics for one in told.entries]  # from the ledger


def test_without_time_a_run_of_earlier_code_stands_in_and_the_page_says_so(tmp_path: Path) -> None:
    name = explainer_methods.method_name("joint", "chance")
    plan = BenchmarkPlan("explainers", ("uea:NATOPS",), (name,), (0,), budget_s=0)
    ledger = tmp_path / "explainers.jsonl"
    fresh = run_benchmark(plan, Ledger(ledger), _split)
    assert fresh.entries[0].skipped == OVER_BUDGET
    gap = {"value": 0.25, "error": 0.1, "by_share": [0.25] * 5, "by_case": [1, 2]}
    earlier = re.sub(r"\b[0-9a-f]{12}\b", "0123456789ab", fresh.entries[0].version)
    stored = {
        "set_name": "uea:NATOPS", "method": name, "seed": 0, "version": earlier, "data": fresh.entries[0].data,
        "metrics": {"gap": gap, "accuracy": 0.5}, "facts": {"explained": 2},
    }  # fmt: skip
    other = stored | {"version": earlier.replace("balanced", "fast")}
    ledger.write_text(json.dumps(other) + "\n")
    assert run_benchmark(plan, Ledger(ledger), _split).entries[0].skipped == OVER_BUDGET  # of another profile
    ledger.write_text(json.dumps(stored) + "\n")
    results = run_benchmark(plan, Ledger(ledger), _split)
    page = REPORTS["explainers"](plan, results, read_paper(PAPER), TODAY)
    assert "0.250" in page
    assert "1 of the runs are of an earlier version" in page


def test_the_papers_own_accuracies_do_not_separate_it_on_the_sets_at_hand() -> None:
    from anchormoe.benchmark.paper_ranks import describe_paper_ranks

    at_hand = (
        "ArticularyWordRecognition", "BasicMotions", "CharacterTrajectories", "Cricket", "FingerMovements",
        "JapaneseVowels", "NATOPS", "PenDigits", "RacketSports", "StandWalkJump", "UWaveGestureLibrary",
    )  # fmt: skip
    text = describe_paper_ranks(read_paper(PAPER), at_hand)
    assert "2.563 for 10 methods on 18 sets; two-sided it is 2.798" in text
    assert "still holds (the next method is 2.97 ranks away)" in text
    assert "two-sided critical difference is 3.58" in text
    assert "MPTSNet 3.32" in text
    assert describe_paper_ranks(read_paper(Path("none")), at_hand) == ""


def test_a_patch_of_the_papers_rule_needs_five_steps() -> None:
    from anchormoe.metrics.pooled_localization import localize_pooled, quarter_patches

    truth = np.zeros((1, 32), np.bool_)
    truth[0, 0:12] = True  # patches [0, 16), [8, 24), [16, 32) hold 12, 4 and 0 true steps
    assert quarter_patches(truth).tolist() == [[True, False, False]]
    truth[0, 12] = True
    assert quarter_patches(truth).tolist() == [[True, True, False]]
    # Pooled: the second case's true unit comes after both units of the first; precisions 1 and 2/3.
    scores, marked = np.array([[4.0, 3.0], [2.0, 1.0]]), np.array([[True, False], [True, False]])
    found = localize_pooled(scores, marked, np.ones(2, np.bool_))
    assert found.auprc == pytest.approx((1 + 2 / 3) / 2)
    assert found.precision == 1


def test_a_block_of_readme_is_replaced_and_others_stay() -> None:
    from anchormoe.benchmark.readme_block import replace_block

    text = "a\n<!-- one: by x -->\nold\n<!-- end -->\n<!-- one-more: by y -->\nkept\n<!-- end -->\n"
    changed = replace_block(text, "one", "| new |")
    assert changed == text.replace("old", "| new |")
    assert replace_block(text, "two", "x") == text
