"""The page of faithfulness: verdicts are paired over cases, and nothing is run twice."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from anchormoe.benchmark import faithfulness
from anchormoe.benchmark.ledger import Entry
from anchormoe.benchmark.methods import Effort, find_method
from anchormoe.benchmark.report import faithfulness_report, read_paper
from anchormoe.benchmark.report_tables import Paper
from anchormoe.benchmark.runner import BenchmarkPlan, BenchmarkResults

PAPER = Path(__file__).parents[4] / "configs" / "paper_results.yaml"
PLAN = BenchmarkPlan("faithfulness", ("toy", "lost"), ("joint-evidence",), (0, 1))


def ranking(by_case: list[int]) -> dict[str, Any]:
    return {
        "gap": sum(by_case) / len(by_case) / 5, "gap_error": 0.1, "by_case": by_case,
        "i20": 0.9, "i20_error": 0.03, "mask_only": 0.25,
    }  # fmt: skip


def entry(seed: int, *, evidence: list[int], occlusion: list[int]) -> Entry:
    of = {
        "evidence": ranking(evidence), "centred": ranking([0, 0, 0, 0]), "occlusion": ranking(occlusion),
        "random": ranking([9, 9, 9, 9]),
    }  # fmt: skip
    found = {"cases": 4, "accuracy": 0.75, "shares": [0.1, 0.2, 0.3, 0.4, 0.5], "mean": of, "missing": of}
    cancellation = {
        "median": 1.0, "p90": 1.25, "channel_median": 2.0, "channel_p90": None, "context_share": 0.05, "cases": 4,
        "bounds_kept": True,
    }  # fmt: skip
    metrics = {"accuracy": 0.75, "n": 4, "faithfulness": found, "cancellation": cancellation}
    return Entry("toy", "joint-evidence", seed, "1", "d", [0, 1, 0, 1], metrics)


def test_chance_is_never_the_best_ranking() -> None:
    best, difference = faithfulness.gap_difference([entry(0, evidence=[5, 5, 0, 0], occlusion=[0, 5, 0, 0])], "missing")
    assert best == "evidence"
    assert (difference.mean, difference.standard_error) == (0.0, 0.0)


def test_the_difference_to_the_best_ranking_is_paired_over_cases() -> None:
    own = [entry(0, evidence=[5, 0, 5, 0], occlusion=[5, 5, 5, 0])]
    best, difference = faithfulness.gap_difference(own, "missing")
    assert best == "occlusion"
    # One of four cases differs, by a whole gap: mean −1/4, and its error is as large.
    assert difference.mean == pytest.approx(-0.25)
    assert difference.standard_error == pytest.approx(0.25)
    assert difference.not_worse


def test_with_the_mean_nine_tenths_of_the_best_are_enough() -> None:
    own = [entry(0, evidence=[5, 5, 5, 4], occlusion=[5, 5, 5, 5])]
    assert faithfulness.gap_difference(own, "mean")[1].mean == pytest.approx(0.95 - 0.9)


def test_a_clear_difference_is_not_reached() -> None:
    own = [entry(seed, evidence=[0, 1, 0, 1], occlusion=[5, 5, 5, 5]) for seed in (0, 1)]
    assert not faithfulness.gap_difference(own, "missing")[1].not_worse


def test_the_page_shows_both_removals_the_paper_and_what_is_missing() -> None:
    entries = tuple(entry(seed, evidence=[5, 0, 5, 0], occlusion=[5, 5, 5, 0]) for seed in (0, 1))
    paper = Paper(
        faithfulness={
            "toy": {
                "gap": {"Random": [0.9, 0.0], "IG": [0.1, 0.0], "FIT": [0.2, 0.0], "AnchorMoE": [0.307, 0.0]},
                "i20": {"Random": [0.9, 0.0], "IG": [0.3, 0.0], "FIT": [0.2, 0.0], "AnchorMoE": [0.837, 0.017]},
            }
        }
    )
    results = BenchmarkResults(entries, {}, {"lost": "data not found"})
    page = faithfulness_report(PLAN, results, paper, date(2026, 1, 2))
    assert "`anchormoe-agent benchmark faithfulness`" in page
    assert "| toy | joint | 0.500 ± 0.289 | occlusion 0.750 ± 0.250 | -0.250 ± 0.250 | ✓ |" in page
    assert page.count("0.900 ± 0.030 / 0.250") == 8
    assert page.count("| 0.307 ± 0.000 | FIT 0.200 |") == 1
    assert page.count("| 0.837 ± 0.017 | IG 0.300 |") == 1
    assert "| toy | joint | 1.00 / 1.25 | 2.00 / infinite | 0.05 | ✓ |" in page
    assert "- lost: data not found" in page


def test_every_recipe_is_a_method_whose_version_names_the_measurement() -> None:
    for name in faithfulness.METHODS:
        version = find_method(name).version(Effort())
        assert ", faithfulness " in version
        assert version != find_method("anchormoe").version(Effort())


def test_the_papers_seven_sets_are_in_its_file() -> None:
    figures = read_paper(PAPER).faithfulness
    assert len(figures) == 7
    gaps = {name: figures[name]["gap"]["AnchorMoE"][0] for name in ("NATOPS", "Cricket", "CharacterTrajectories")}
    assert gaps == {"NATOPS": 0.307, "Cricket": 0.186, "CharacterTrajectories": 0.620}
    assert figures["Cricket"]["i20"]["AnchorMoE"] == [0.940, 0.008]


def without_retention(given: Entry, set_name: str) -> Entry:
    found = given.metrics["faithfulness"]
    short = {
        how: {name: {key: own[key] for key in ("gap", "gap_error", "by_case")} for name, own in found[how].items()}
        for how in ("mean", "missing")
    }
    return replace(
        given, set_name=set_name, method="joint-gap", metrics=given.metrics | {"faithfulness": found | short}
    )


def test_a_run_without_retention_shows_its_gap_unless_the_same_set_has_a_whole_one() -> None:
    whole = entry(0, evidence=[5, 5, 5, 5], occlusion=[0, 0, 0, 0])
    other = entry(0, evidence=[5, 0, 5, 0], occlusion=[5, 0, 5, 0])
    plan = BenchmarkPlan("faithfulness", ("toy", "large"), ("joint-evidence", "joint-gap"), (0,))
    entries = (whole, without_retention(other, "toy"), without_retention(other, "large"))
    page = faithfulness_report(plan, BenchmarkResults(entries, {}, {}), Paper(), date(2026, 1, 2))
    assert "| toy | joint | 1.000 ± 0.000 | evidence 1.000 ± 0.000 | +0.000 ± 0.000 | ✓ |" in page
    assert "| toy | joint | 0.500" not in page
    assert "| large | joint | 0.500 ± 0.289 | evidence 0.500 ± 0.289 | +0.000 ± 0.000 | ✓ |" in page
    assert "| large | joint | – | – | – | – | – | – |" in page
    assert find_method("joint-gap").version(Effort()) != find_method("joint-evidence").version(Effort())


def test_a_page_without_any_retention_says_nothing_of_it_but_names_runs_of_earlier_code() -> None:
    own = without_retention(entry(0, evidence=[5, 0, 5, 0], occlusion=[5, 0, 5, 0]), "toy")
    plan = BenchmarkPlan("faithfulness", ("toy",), ("joint-gap",), (0,))
    results = BenchmarkResults((own,), {}, {}, outdated=(own,))
    page = faithfulness_report(plan, results, Paper(), date(2026, 1, 2))
    assert "I(20) / mask only" not in page
    assert "1 of the runs are of an earlier version of the code" in page
