"""When a bundle is worth serving: figures worked out by hand."""

from typing import Any

import pytest

from anchormoe.bundle.usefulness import Baseline, judge, useless_reasons


def recalls(value: float, *, classes: int = 4, cases: int = 100) -> dict[str, tuple[float, int]]:
    return {str(label): (value, cases) for label in range(classes)}


def test_a_model_near_chance_is_useless() -> None:
    (reason,) = judge(0.26, recalls(0.26), 0.1, ()).useless
    assert "near chance: out-of-fold balanced accuracy 0.260, guessing gives 0.250" in reason
    assert "data inspect" in reason


def test_an_accuracy_of_nothing_is_useless_with_twelve_cases_too() -> None:
    assert judge(0.0, recalls(0.0, classes=3, cases=4), 0.0, ()).useless


def test_a_frequent_class_does_not_hide_that_the_others_are_guessed() -> None:
    """95 % of the cases are of one class, and it is always the answer."""
    judged = judge(0.95, {"a": (1.0, 950), "b": (0.0, 50)}, 0.0, ())
    assert judged.balanced_accuracy == 0.5
    assert any("hardly be told from guessing" in note for note in judged.notes)
    assert judge(0.99, {"a": (1.0, 9900), "b": (0.0, 1000)}, 0.0, ()).useless


def test_with_few_cases_a_poor_figure_is_noted_and_not_refused() -> None:
    judged = judge(0.5, recalls(0.5, classes=2, cases=10), 0.0, ())
    assert not judged.useless
    assert any("too few cases" in note for note in judged.notes)


@pytest.mark.parametrize(("unknown", "useless", "noted"), [(0.95, 1, 0), (0.6, 0, 1), (0.2, 0, 0)])
def test_a_model_that_hardly_answers_is_useless_or_noted(unknown: float, useless: int, noted: int) -> None:
    judged = judge(0.9, recalls(0.9), unknown, ())
    assert (len(judged.useless), len(judged.notes)) == (useless, noted)


def test_a_baseline_that_is_ahead_is_named_with_its_figures() -> None:
    ahead, behind = Baseline("a line", 0.95, 0.94, True), Baseline("the majority", 0.3, 0.25, False)
    judged = judge(0.6, recalls(0.6), 0.0, (ahead, behind))
    assert judged.notes == (
        "it does not beat a line: accuracy 0.600 against 0.950, balanced 0.600 against 0.940",
    )  # fmt: skip


def test_the_reasons_are_read_from_a_manifest_and_absent_from_earlier_ones() -> None:
    judged = judge(0.26, recalls(0.26), 0.1, ())
    assert useless_reasons({"metrics": {"usefulness": judged.to_dict()}}) == judged.useless
    manifests: list[dict[str, Any]] = [{}, {"metrics": None}, {"metrics": {"usefulness": None}}]
    for manifest in manifests:
        assert useless_reasons(manifest) == ()
