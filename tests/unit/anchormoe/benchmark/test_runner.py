"""A benchmark resumes, compares fairly and writes what it found."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from anchormoe.benchmark import methods
from anchormoe.benchmark.baselines import pad_cases, padded_length
from anchormoe.benchmark.comparison import mean_and_deviation, mean_ranks, paired_difference, ranks
from anchormoe.benchmark.ledger import Entry, Ledger, split_fingerprint
from anchormoe.benchmark.methods import Effort, Method, MethodResult
from anchormoe.benchmark.report import REPORTS, accuracy_report, localization_report, read_paper, stability_report
from anchormoe.benchmark.report_tables import (
    Paper,
    abstention_table,
    accuracy_table,
    out_of_fold_table,
    stability_table,
)
from anchormoe.benchmark.runner import BenchmarkPlan, BenchmarkResults, find_sets, run_benchmark
from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset, Split
from anchormoe.errors import DataError


def part(y: list[int], *, value: float = 1.0) -> Dataset:
    cases = Cases.from_arrays(np.full((len(y), 1, 4), value) + np.arange(len(y))[:, None, None])
    return Dataset("toy", cases, np.array(y, dtype=np.int64), ("a", "b"), ("c",), ("",))


SPLIT = Split(part([0, 1]), part([0, 1, 1, 0]))


class Counted:
    """A method that says the same every time and counts how often it was asked."""

    def __init__(self, said: list[int]) -> None:
        self.said = said
        self.runs = 0

    def run(self, train: Dataset, test: Dataset, seed: int, effort: Effort) -> MethodResult:
        self.runs += 1
        return MethodResult(np.array(self.said, dtype=np.int64), fit_s=1.0, predict_s=0.5)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Counted]:
    monkeypatch.setattr(methods, "_REGISTERED", {})
    doubles = {"anchormoe": Counted([0, 1, 1, 0]), "rival": Counted([0, 1, 0, 0])}
    for name, double in doubles.items():
        methods.register_method(Method(name, name.title(), double.run, lambda effort: f"1 {effort.profile}"))
    return doubles


def plan(**changes: object) -> BenchmarkPlan:
    base = BenchmarkPlan("uea", ("toy",), ("rival", "anchormoe"), (0, 1))
    return replace(base, **changes)  # type: ignore[arg-type]  # a test names the field


def load(name: str, seed: int) -> Split:
    if name != "toy":
        raise DataError(f"{name} is broken")
    return SPLIT


def test_a_second_run_asks_no_method_again(tmp_path: Path, registered: dict[str, Counted]) -> None:
    path = tmp_path / "runs.jsonl"
    first = run_benchmark(plan(), Ledger(path), load)
    again = run_benchmark(plan(), Ledger(path), load)
    assert [double.runs for double in registered.values()] == [2, 2]
    assert again.entries == first.entries


def test_another_seed_version_or_data_is_run_afresh(tmp_path: Path, registered: dict[str, Counted]) -> None:
    ledger = Ledger(tmp_path / "runs.jsonl")
    run_benchmark(plan(), ledger, load)
    run_benchmark(plan(seeds=(0, 1, 2)), ledger, load)
    assert registered["rival"].runs == 3
    run_benchmark(plan(effort=Effort(profile="fast")), ledger, load)
    assert registered["rival"].runs == 5
    run_benchmark(plan(), ledger, lambda name, seed: Split(SPLIT.train, part([0, 1, 1, 0], value=2.0)))
    assert registered["rival"].runs == 7


def test_a_line_cut_off_by_a_crash_costs_that_run_only(tmp_path: Path, registered: dict[str, Counted]) -> None:
    path = tmp_path / "runs.jsonl"
    run_benchmark(plan(), Ledger(path), load)
    path.write_text(path.read_text()[:-40])
    run_benchmark(plan(), Ledger(path), load)
    assert registered["anchormoe"].runs == 3
    assert len(run_benchmark(plan(), Ledger(path), load).entries) == 4
    assert registered["anchormoe"].runs == 3


@pytest.mark.parametrize(
    "damaged",
    [b"\xff\xfe", b"[1, 2]", b"null", b'{"set_name": ["a"], "method": "m", "seed": 0, "version": "1", "data": "d"}'],
)
def test_a_damaged_line_is_passed_over(tmp_path: Path, registered: dict[str, Counted], damaged: bytes) -> None:
    path = tmp_path / "runs.jsonl"
    run_benchmark(plan(), Ledger(path), load)
    path.write_bytes(damaged + b"\n" + path.read_bytes())
    assert len(run_benchmark(plan(), Ledger(path), load).entries) == 4
    assert registered["anchormoe"].runs == 2


def test_a_set_that_cannot_be_loaded_is_named_and_the_others_go_on(
    tmp_path: Path, registered: dict[str, Counted]
) -> None:
    results = run_benchmark(plan(sets=("lost", "toy")), Ledger(tmp_path / "runs.jsonl"), load)
    assert results.missing == {"lost": "lost is broken"}
    assert len(results.entries) == 4


def test_a_refusal_is_kept_with_its_reason(tmp_path: Path, registered: dict[str, Counted]) -> None:
    rival = methods.find_method("rival")
    methods.register_method(replace(rival, skip_reason=lambda train, test: "too large"))
    results = run_benchmark(plan(), Ledger(tmp_path / "runs.jsonl"), load)
    assert registered["rival"].runs == 0
    assert "toy, Rival: not run, too large" in accuracy_report(plan(), results, Paper(), date(2026, 1, 2))


def test_an_unknown_method_names_the_known_ones(registered: dict[str, Counted]) -> None:
    with pytest.raises(DataError, match="known are anchormoe, rival"):
        methods.find_method("oracle")


def test_progress_tells_every_finished_run(tmp_path: Path, registered: dict[str, Counted]) -> None:
    told: list[tuple[int, int, float]] = []
    run_benchmark(
        plan(), Ledger(tmp_path / "x"), load, progress=lambda p: told.append((p.done, p.total, p.figures["accuracy"]))
    )
    assert told == [(1, 4, 0.75), (2, 4, 1.0), (3, 4, 0.75), (4, 4, 1.0)]


def entry(seed: int, predicted: list[int]) -> Entry:
    return Entry("toy", "m", seed, "1", "d", predicted, {"accuracy": 0.0})


def test_a_paired_difference_is_taken_case_by_case() -> None:
    truth = {("toy", 0): np.zeros(4, int), ("toy", 1): np.zeros(4, int)}
    ours = [entry(0, [0, 0, 0, 1]), entry(1, [0, 0, 0, 1])]
    theirs = [entry(0, [0, 0, 1, 1]), entry(1, [0, 0, 1, 1])]
    found = paired_difference(ours, theirs, truth)
    assert found is not None
    # One of four cases is better, in both seeds: mean 1/4, and the variance of (0, 0, 1, 0) over cases is 1/4.
    assert found.mean == 0.25
    assert found.standard_error == pytest.approx(np.sqrt(0.25 / 4))
    assert found.not_worse


def test_a_difference_between_seeds_widens_the_error() -> None:
    truth = {("toy", 0): np.zeros(2, int), ("toy", 1): np.zeros(2, int)}
    found = paired_difference([entry(0, [0, 0]), entry(1, [1, 1])], [entry(0, [1, 1]), entry(1, [0, 0])], truth)
    assert found is not None
    assert (found.mean, found.standard_error) == (0.0, 1.0)


def test_seeds_that_only_one_has_are_left_out() -> None:
    assert paired_difference([entry(0, [0])], [entry(1, [0])], {("toy", 0): np.zeros(1, int)}) is None


def test_equal_scores_share_their_rank() -> None:
    assert ranks({"a": 0.9, "b": 0.8, "c": 0.9}) == {"a": 1.5, "b": 3.0, "c": 1.5}
    assert mean_ranks([{"a": 1.0, "b": 0.5}, {"a": 0.2, "b": 0.3}, {"a": 1.0}]) == {"a": 1.5, "b": 1.5}


def test_a_spread_of_one_has_no_deviation() -> None:
    one, two = mean_and_deviation([0.5]), mean_and_deviation([0.0, 1.0])
    assert one is not None
    assert two is not None
    assert (one.mean, one.deviation) == (0.5, 0.0)
    assert two.deviation == pytest.approx(np.sqrt(0.5))
    assert mean_and_deviation([]) is None


def test_the_page_holds_means_the_papers_figures_and_what_is_missing(
    tmp_path: Path, registered: dict[str, Counted]
) -> None:
    asked = plan(sets=("lost", "toy"))
    results = run_benchmark(asked, Ledger(tmp_path / "runs.jsonl"), load)
    paper = Paper({"toy": {"accuracy": {"AnchorMoE": [0.9, 0.01], "MiniRocket": [0.8, 0.02]}}})
    page = accuracy_report(asked, results, paper, date(2026, 1, 2))
    assert "Written on 2026-01-02" in page
    row = "| toy | 4 | 0.900 ± 0.010 | 0.800 ± 0.020 | 0.750 ± 0.000 | 1.000 ± 0.000 | +0.250 ± 0.250"
    assert row in page
    assert "(only 4 cases)" in page
    assert "| mean rank |  |  |  | 2.00 | 1.00 |  |" in page
    assert "- lost: lost is broken" in page


def test_the_localization_page_shows_both_definitions(tmp_path: Path, registered: dict[str, Counted]) -> None:
    results = run_benchmark(plan(source="synthetic"), Ledger(tmp_path / "runs.jsonl"), load)
    score = {"auprc": 0.9, "iou": 0.8, "precision": 0.7, "cases": 4}
    by_channel = {"channels": score | {"auprc": 0.6}, "occlusion": score | {"auprc": 0.5}}
    found = {"any_overlap": score, "half_overlap": score} | by_channel
    scored = tuple(
        replace(one, metrics=one.metrics | {"localization": found}) if one.method == "anchormoe" else one
        for one in results.entries
    )
    page = localization_report(plan(), BenchmarkResults(scored, results.truth, {}), Paper(), date(2026, 1, 2))
    assert page.count("0.900 ± 0.000 / 0.800 ± 0.000 / 0.700 ± 0.000") == 2
    assert "| toy | Anchormoe | 0.600 ± 0.000 | 0.500 ± 0.000 |" in page


@pytest.mark.parametrize("kind", sorted(REPORTS))
def test_every_page_has_the_title_that_was_asked_for(kind: str) -> None:
    asked = plan(source=kind, title="One of mine", methods=())
    page = REPORTS[kind](asked, BenchmarkResults((), {}, {}), Paper(), date(2026, 1, 2))
    assert page.startswith("# One of mine\n")


def test_the_classifiers_page_says_what_was_run(registered: dict[str, Counted]) -> None:
    run = Entry("PEMS-SF", "rival", 0, "1", "d", metrics={"accuracy": 0.5, "macro_f1": 0.5, "per_class": {}})
    asked = plan(source="classifiers", sets=("PEMS-SF",), methods=(), effort=Effort(recipe="kernel", n_jobs=2))
    page = REPORTS["classifiers"](asked, BenchmarkResults((run,), {}, {}), Paper(), date(2026, 1, 2))
    assert "*AnchorMoE (ours)* is the recipe `kernel`" in page
    assert "Six of the paper's eighteen sets are not at hand" in page
    assert "--recipe kernel --jobs 2`" in page


def test_the_explainers_page_explains_only_the_tables_that_it_has() -> None:
    page = REPORTS["explainers"](plan(methods=()), BenchmarkResults((), {}, {}), Paper(), date(2026, 1, 2))
    assert "## Where" not in page
    assert "## Is DeepLIFT" not in page


def test_the_papers_file_covers_all_its_sets() -> None:
    paper = read_paper(Path(__file__).parents[4] / "configs" / "paper_results.yaml")
    assert len(paper.classification) == 18
    assert paper.classification["NATOPS"]["accuracy"]["AnchorMoE"] == [0.974, 0.006]
    assert set(paper.localization) == {"localized", "composition", "distractor", "multi-distractor"}
    assert paper.localization["distractor"]["auprc"]["AnchorMoE"] == [0.799, 0.018]


def test_a_paper_file_that_is_not_there_gives_no_figures(tmp_path: Path) -> None:
    assert read_paper(tmp_path / "none.yaml") == Paper()


def test_padding_fills_to_train_length_and_cuts_longer_tests() -> None:
    train = Cases.from_arrays([np.array([[1.0, 2.0]]), np.array([[3.0, np.nan, 5.0]])])
    assert pad_cases(train, 4).tolist() == [[[1, 2, 0, 0]], [[3, 4, 5, 0]]]
    assert pad_cases(train, 2).tolist() == [[[1, 2]], [[3, 4]]]


def test_short_series_are_padded_to_nine_steps() -> None:
    assert padded_length(SPLIT.train) == 9


def test_a_fingerprint_sees_values_and_labels() -> None:
    other = Split(part([1, 0]), SPLIT.test)
    assert split_fingerprint(SPLIT) == split_fingerprint(Split(part([0, 1]), part([0, 1, 1, 0])))
    assert split_fingerprint(SPLIT) != split_fingerprint(other)


def test_folders_with_a_train_file_are_the_sets_at_hand(tmp_path: Path) -> None:
    for name, file in (("A", "A_TRAIN.ts"), ("B", "B_TRAIN.arff"), ("C", "D_TRAIN.ts")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).touch()
    assert find_sets(tmp_path, ("Shipped",)) == ("A", "B", "Shipped")


def abstaining(seed: int, rate: float, by_rule: dict[str, float], rates: dict[str, float]) -> Entry:
    said = {"rate": rate, "by_rule": by_rule, "selective_accuracy": None if rate == 1 else 0.75}
    facts = {"abstention_rates": rates}
    return Entry("toy", "anchormoe", seed, "1", "d", [0], {"accuracy": 1.0, "abstention": said}, facts=facts)


def test_the_page_tells_how_often_unknown_is_said_and_by_which_rule(registered: dict[str, Counted]) -> None:
    runs = (
        abstaining(0, 0.2, {"low_margin": 0.2}, {"low_margin": 0.1, "conformal": 0.0}),
        abstaining(1, 1.0, {"conformal": 1.0}, {"low_margin": 0.3, "conformal": 0.0}),
    )
    table = abstention_table(plan(), BenchmarkResults(runs, {}, {}))
    assert "| toy | Anchormoe | 0.600 ± 0.566 | 0.750 | conformal 0.500, low_margin 0.100 | low_margin 0.200 |" in table
    assert abstention_table(plan(), BenchmarkResults((), {}, {})) == ""


def test_sets_that_the_paper_does_not_have_leave_no_empty_columns(
    tmp_path: Path, registered: dict[str, Counted]
) -> None:
    results = run_benchmark(plan(), Ledger(tmp_path / "runs.jsonl"), load)
    paper = Paper({"other": {"accuracy": {"AnchorMoE": [0.9, 0.01], "MiniRocket": [0.8, 0.02]}}})
    table = accuracy_table(plan(), results, paper)
    assert "paper:" not in table
    assert {line.count("|") for line in table.splitlines()} == {6}


def test_a_page_of_chosen_sets_has_its_own_title_and_names_the_command(
    tmp_path: Path, registered: dict[str, Counted]
) -> None:
    asked = plan(named=True, title="Some sets")
    page = accuracy_report(asked, run_benchmark(asked, Ledger(tmp_path / "x"), load), Paper(), date(2026, 1, 2))
    assert page.startswith("# Some sets\n")
    assert "`anchormoe-agent benchmark uea --sets toy`" in page
    chosen = replace(asked, methods_named=True)
    page = accuracy_report(chosen, run_benchmark(chosen, Ledger(tmp_path / "x"), load), Paper(), date(2026, 1, 2))
    assert "`anchormoe-agent benchmark uea --sets toy --methods rival,anchormoe`" in page


def test_a_page_says_with_which_recipe_and_profile_it_was_made_where_they_are_not_the_usual_ones(
    registered: dict[str, Counted],
) -> None:
    cheap = plan(effort=Effort(recipe="kernel", profile="fast"))
    page = accuracy_report(cheap, BenchmarkResults((), {}, {}), Paper(), date(2026, 1, 2))
    assert "`anchormoe-agent benchmark uea --recipe kernel --profile fast`" in page


def promising(seed: int, promised: float, kept: float, weights: dict[str, float]) -> Entry:
    facts = {"out_of_fold": {"accuracy": promised, "nll": 0.5}, "weights": weights}
    return Entry("toy", "anchormoe", seed, "1", "d", [0], {"accuracy": kept, "nll": 0.25}, facts=facts)


def test_the_page_compares_what_train_promised_with_what_test_gave(registered: dict[str, Counted]) -> None:
    runs = (promising(0, 0.8, 0.7, {"kernel": 1.0}), promising(1, 0.6, 0.7, {"kernel": 0.5, "experts": 0.5}))
    table = out_of_fold_table(plan(), BenchmarkResults(runs, {}, {}))
    figures = "0.700 ± 0.141 | 0.700 ± 0.000 | 0.500 ± 0.000 | 0.250 ± 0.000 | experts 0.25, kernel 0.75 |"
    assert f"| toy | Anchormoe | {figures}" in table
    assert out_of_fold_table(plan(), BenchmarkResults((), {}, {})) == ""


def test_the_stability_page_judges_the_mean_over_seeds(registered: dict[str, Counted]) -> None:
    def run(seed: int, median: float | None) -> Entry:
        found = {"median": median, "p10": 0.5, "patch_median": 0.25, "channel_median": 0.75, "pairs": 10}
        return Entry("toy", "anchormoe", seed, "1", "d", [0], {"accuracy": 1.0, "stability": found})

    stable = BenchmarkResults((run(0, 0.97), run(1, 0.85)), {}, {})
    page = stability_report(plan(source="stability"), stable, Paper(), date(2026, 1, 2))
    row = "| toy | Anchormoe | 1.000 ± 0.000 | 0.910 ± 0.085 | 0.500 ± 0.000 | 0.250 ± 0.000 | 0.750 ± 0.000 | 20 | ✓ |"
    assert row in page
    assert stability_table(plan(), BenchmarkResults((run(0, 0.89),), {}, {})).endswith("| ✗ |")
    # Windows that never overlap have no row.
    assert stability_table(plan(), BenchmarkResults((run(0, None),), {}, {})).count("\n") == 1
