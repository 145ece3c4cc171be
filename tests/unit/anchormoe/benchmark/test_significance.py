"""Ranks and tests over data sets, against figures worked out by hand or published."""

from pathlib import Path

import numpy as np
import pytest

from anchormoe.benchmark.rank_diagram import draw_rank_diagram
from anchormoe.benchmark.significance import Ranking, compare_with_control, rank_methods, wilcoxon_holm

TABLES = [
    {"ours": 0.9, "b": 0.8, "c": 0.7},
    {"ours": 0.8, "b": 0.9, "c": 0.1},
    {"ours": 0.7, "b": 0.5, "c": 0.5},
]


def test_mean_ranks_share_ties() -> None:
    ranking = rank_methods(TABLES)
    assert ranking.ranks == {"ours": pytest.approx(4 / 3), "b": pytest.approx(5.5 / 3), "c": pytest.approx(8.5 / 3)}
    assert ranking.sets == 3


def test_a_set_without_every_method_is_left_out() -> None:
    assert rank_methods([*TABLES, {"ours": 1.0}]).sets == 3


def test_the_papers_critical_difference_is_the_one_sided_one() -> None:
    paper = Ranking({f"m{at}": float(at + 1) for at in range(10)}, sets=18, friedman_p=None)
    two = compare_with_control(paper, "m0")
    one = compare_with_control(paper, "m0", two_sided=False)
    assert two.critical_difference == pytest.approx(2.798, abs=5e-4)
    assert one.critical_difference == pytest.approx(2.563, abs=5e-4)


def test_a_method_beyond_the_critical_difference_has_a_small_p_value() -> None:
    ranking = Ranking({f"m{at}": float(at + 1) for at in range(10)}, sets=18, friedman_p=None)
    test = compare_with_control(ranking, "m0")
    for name, p_value in test.p_values.items():
        assert (p_value < 0.05) == (ranking.ranks[name] - 1 > test.critical_difference)


def test_holm_multiplies_the_smallest_most() -> None:
    tables = [{"ours": 0.9 + 0.001 * at, "worse": 0.5, "same": 0.9 + 0.001 * at} for at in range(6)]
    # Six differences of one sign: the exact two-sided signed-rank p is 2 / 2^6 = .03125, times two comparisons.
    assert wilcoxon_holm(tables, "ours") == {"worse": pytest.approx(0.0625), "same": 1.0}


def test_wilcoxon_holm_agrees_with_aeon() -> None:
    from aeon.benchmarking.stats import wilcoxon_test

    draw = np.random.default_rng(0)
    names = ("ours", "b", "c", "d")
    scores = draw.random((9, 4)) + np.array([0.3, 0.2, 0.0, 0.1])
    tables = [dict(zip(names, row, strict=True)) for row in scores.tolist()]
    found = wilcoxon_holm(tables, "ours")
    pairs = np.asarray(wilcoxon_test(scores, names))  # aeon's p values are one-sided, of the upper triangle
    two_sided = {name: min(1.0, 2 * min(pairs[0, at], 1 - pairs[0, at])) for at, name in enumerate(names) if at}
    smallest = min(two_sided, key=lambda name: two_sided[name])
    assert found[smallest] == pytest.approx(min(1.0, 3 * two_sided[smallest]), abs=2e-3)


def test_a_diagram_is_drawn_in_both_formats(tmp_path: Path) -> None:
    ranking = rank_methods(TABLES)
    paths = (tmp_path / "ranks.svg", tmp_path / "ranks.png")
    draw_rank_diagram(ranking, compare_with_control(ranking, "ours"), {"ours": "AnchorMoE"}, "Accuracy", paths)
    assert all(path.stat().st_size > 1_000 for path in paths)
