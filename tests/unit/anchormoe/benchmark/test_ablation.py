"""Parts added and taken away: every row is a real setting, and the table compares it with the first row."""

from datetime import date

import numpy as np
import pytest

from anchormoe.benchmark import ablation
from anchormoe.benchmark.ablation import EXPERTS, PAPER, AblationRow, limit_cases
from anchormoe.benchmark.ledger import Entry
from anchormoe.benchmark.methods import Effort, find_method
from anchormoe.benchmark.report import ablation_report
from anchormoe.benchmark.report_tables import Paper
from anchormoe.benchmark.runner import BenchmarkPlan, BenchmarkResults
from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset
from anchormoe.recipes.fitters import experts_settings, paper_settings
from anchormoe.recipes.settings import RecipeSettings

SETS = ("synthetic:toy", "uea:toy")
TRUTH = np.array([0, 1, 1, 0], np.int64)


@pytest.mark.parametrize("row", EXPERTS, ids=lambda row: row.name)
def test_every_row_of_the_experts_differs_from_the_first_by_its_changes(row: AblationRow) -> None:
    plain, changed = (experts_settings(each) for each in (RecipeSettings(), RecipeSettings(experts=row.changes)))
    assert {name: getattr(changed, name) for name in row.changes} == dict(row.changes)
    assert (plain == changed) == (row == EXPERTS[0])


@pytest.mark.parametrize("row", PAPER, ids=lambda row: row.name)
def test_every_row_of_the_paper_differs_from_the_first_by_its_changes(row: AblationRow) -> None:
    plain, changed = (paper_settings(each) for each in (RecipeSettings(), RecipeSettings(paper=row.changes)))
    assert (plain == changed) == (row == PAPER[0])


def test_rows_of_one_recipe_are_kept_apart_in_the_ledger() -> None:
    versions = {find_method(name).version(Effort()) for name in ablation.METHODS}
    assert len(versions) == len(ablation.METHODS)


def test_training_is_cut_to_the_first_cases_of_the_classes_in_turn() -> None:
    y = np.array([0, 0, 0, 1, 1, 0], np.int64)
    train = Dataset(
        "toy", Cases.from_arrays(np.arange(6.0)[:, None, None] * np.ones((1, 1, 4))), y, ("a", "b"), ("c",), ("",)
    )
    cut = limit_cases(train, 3)
    assert cut.cases.x[:, 0, 0].tolist() == [0.0, 1.0, 3.0]
    assert len(limit_cases(train, 100)) == 6


def entry(name: str, key: str, predicted: list[int], auprc: float | None) -> Entry:
    places = {} if auprc is None else {"localization": {"any_overlap": {"auprc": auprc}}}
    accuracy = float(np.mean(np.array(predicted) == TRUTH))
    return Entry(name, key, 0, "1", "d", predicted, {"accuracy": accuracy} | places)


def results() -> BenchmarkResults:
    runs = (
        entry("synthetic:toy", "experts", [0, 1, 1, 0], 0.9),
        entry("synthetic:toy", "experts+spectral", [0, 1, 1, 1], 0.85),
        entry("uea:toy", "experts", [0, 1, 0, 1], None),
        entry("uea:toy", "experts+spectral", [0, 1, 1, 0], None),
    )
    return BenchmarkResults(runs, {(name, 0): TRUTH for name in SETS}, {})


def test_a_row_is_compared_with_the_first_over_all_sets() -> None:
    plan = BenchmarkPlan("ablation", SETS, ("experts", "experts+spectral"), (0,))
    head, first, second = ablation.ablation_table(EXPERTS, plan, results())
    assert head[1:3] == ["toy", "toy"]
    assert first[1:] == ["1.000 / 0.900", "0.500", "", ""]
    assert second[1:3] == ["0.750 / 0.850", "1.000"]
    # -1/4 and +2/4; errors of four paired cases: sqrt(1/4 / 4) and sqrt(1/3 / 4)
    assert second[3] == f"{(-0.25 + 0.5) / 2:+.3f} ± {np.sqrt(1 / 16 + 1 / 12) / 2:.3f}"
    assert second[4] == "-0.050"


def test_the_page_has_a_table_for_each_recipe_that_was_run() -> None:
    plan = BenchmarkPlan("ablation", SETS, ("experts", "experts+spectral"), (0,))
    page = ablation_report(plan, results(), Paper(), date(2026, 1, 2))
    assert "## Recipe experts" in page
    assert "## Recipe paper" not in page
    assert "+ spectral view of tokens (MVRE)" in page
