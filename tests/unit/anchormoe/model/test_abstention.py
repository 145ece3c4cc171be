"""Abstention: each rule by hand, their order, and what small sets may not have."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anchormoe.cases import Cases
from anchormoe.errors import DataError, ModelError
from anchormoe.folds import Timeline, make_folds
from anchormoe.model.abstention import (
    Abstention,
    OutOfFold,
    conformal_threshold,
    fit_abstention,
    half_missing,
    least_probability,
    unusual_shares,
)

SURE, TORN = [0.9, 0.05, 0.05], [0.48, 0.47, 0.05]


def reasons(rules: Abstention, probabilities: list[float], unusual: float = 0.0, missing: bool = False) -> str | None:
    return rules.reasons(np.array([probabilities]), np.array([unusual]), np.array([[missing]]))[0]


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        (Abstention(least_probability=0.5), "low_probability"),
        (Abstention(least_margin=0.1), "low_margin"),
        (Abstention(conformal=0.4), "conformal"),
    ],
)
def test_a_torn_window_is_unknown_by_the_named_rule_and_a_sure_one_is_not(rules: Abstention, name: str) -> None:
    assert reasons(rules, TORN) == name
    assert reasons(rules, SURE) is None


def test_an_unusual_window_is_unknown_however_sure() -> None:
    rules = Abstention(most_unusual=0.2)
    assert reasons(rules, SURE, unusual=0.3) == "out_of_distribution"
    assert reasons(rules, SURE, unusual=0.2) is None


def test_a_missing_channel_counts_only_where_it_is_required() -> None:
    assert reasons(Abstention(required=(True,)), SURE, missing=True) == "channel_missing"
    assert reasons(Abstention(required=(False,)), SURE, missing=True) is None


def test_the_missing_channel_is_named_before_the_doubt_it_causes() -> None:
    rules = Abstention(least_probability=0.5, required=(True,))
    assert reasons(rules, TORN, missing=True) == "channel_missing"


def test_the_probability_rule_stands_a_quarter_above_guessing() -> None:
    assert least_probability(2) == 0.625
    assert least_probability(4) == 0.4375


def test_padding_does_not_count_as_a_missing_channel() -> None:
    cases = Cases.from_arrays([np.ones((1, 8)), np.ones((1, 2)), np.array([[1.0, np.nan, np.nan]])])
    assert half_missing(cases)[:, 0].tolist() == [False, False, True]


def test_the_conformal_threshold_has_the_finite_sample_correction() -> None:
    probabilities = np.column_stack([np.arange(1, 20) / 20, 1 - np.arange(1, 20) / 20])
    assert conformal_threshold(probabilities, np.zeros(19, int)) == pytest.approx(2 / 20)
    assert conformal_threshold(probabilities[:5], np.zeros(5, int)) == 0.0


def train(n_cases: int, groups: np.ndarray | None = None) -> OutOfFold:
    rng = np.random.default_rng(0)
    y = np.arange(n_cases) % 2
    p = np.clip(0.8 + 0.1 * rng.normal(size=n_cases), 0.01, 0.99)
    probabilities = np.where(y[:, None] == np.arange(2), p[:, None], 1 - p[:, None])
    cases = Cases.from_arrays(rng.normal(size=(n_cases, 2, 10)))
    timeline = None if groups is None else Timeline.of(groups)
    return OutOfFold(probabilities, y, cases, make_folds(y, folds=5, seed=0, timeline=timeline), groups)


def test_below_100_cases_only_the_probability_rule_is_on() -> None:
    assert set(fit_abstention(train(99)).rates) == {"low_probability"}


def test_from_100_cases_on_every_rule_reports_its_rate() -> None:
    rules = fit_abstention(train(200))
    assert set(rules.rates) == {
        "low_probability", "low_margin", "conformal", "out_of_distribution", "channel_missing",
    }  # fmt: skip
    assert rules.rates["out_of_distribution"] <= 0.011
    assert rules.coverage == pytest.approx(0.9, abs=0.05)


def test_conformal_sets_need_twenty_cases_of_each_class() -> None:
    given = train(200)
    few = np.where(np.arange(200) < 19, 1, 0)
    assert fit_abstention(given).conformal is not None
    assert fit_abstention(replace(given, y=few)).conformal is None


def test_conformal_sets_need_twenty_groups() -> None:
    assert fit_abstention(train(200, np.arange(200) // 20)).conformal is None
    assert fit_abstention(train(200, np.arange(200) // 10)).conformal is not None


def test_a_user_may_move_a_threshold_or_switch_a_rule_off() -> None:
    rules = fit_abstention(train(200), {"least_probability": 0.99, "least_margin": None})
    assert rules.least_probability == 0.99
    assert rules.rates["low_probability"] > 0.9
    assert "low_margin" not in rules.rates


@pytest.mark.parametrize(
    ("thresholds", "reason"),
    [
        ({"mood": 0.5}, "mood: no such setting; there are least_probability, least_margin, conformal, most_unusual"),
        ({"least_margin": 2}, "least_margin: expected a number from 0 to 1 or null, not 2"),
        ({"conformal": "x"}, "conformal: expected a number from 0 to 1 or null, not 'x'"),
        ({"most_unusual": True}, "most_unusual: expected a number from 0 to 1 or null, not True"),
    ],
)
def test_a_wrong_threshold_is_named(thresholds: dict[str, Any], reason: str) -> None:
    with pytest.raises(DataError, match=rf"abstention\.{reason}"):
        fit_abstention(train(20), thresholds)


def test_a_case_is_unusual_by_the_range_of_the_others() -> None:
    values = np.zeros((10, 1, 4))
    values[:, 0] = np.arange(4)
    values[3] += 100
    shares = unusual_shares(Cases.from_arrays(values), make_folds(np.zeros(10, np.int64), folds=10, seed=0))
    assert shares[3] == 1.0
    assert shares[0] == 0.0


def test_it_survives_json() -> None:
    rules = fit_abstention(train(200))
    assert Abstention.from_dict(json.loads(json.dumps(rules.to_dict())), 2) == rules


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"least_margin": 2.0}, r"\.least_margin: expected a number from 0 to 1 or null, not 2\.0"),
        ({"required": [True]}, r"\.required: 1 entries for 2 channels"),
        ({"required": [1, 0]}, r"\.required\[0\]: expected true or false, not 1"),
        ({"without": [0.5]}, r"\.without: 1 entries for 2 channels"),
        ({"without": [0.5, 2]}, r"\.without\[1\]: expected a number from 0 to 1 or null, not 2"),
        ({"rates": {"mood": 0.1}}, r"\.rates\.mood: expected one of channel_missing"),
        ({"rates": {"conformal": 3}}, r"\.rates\.conformal: expected a number from 0 to 1, not 3"),
        ({"extra": 1}, r"\.extra: unknown key"),
        ({"most_unusual": "x"}, r"\.most_unusual: expected a number"),
    ],
)
def test_a_damaged_stored_form_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelError, match=rf"^calibration\.json: abstention{reason}"):
        Abstention.from_dict(fit_abstention(train(200)).to_dict() | change, 2)


def test_bundles_from_before_channel_dropout_are_read() -> None:
    stored = fit_abstention(train(200)).to_dict()
    del stored["without"]
    assert Abstention.from_dict(stored, 2).without == ()
    del stored["required"]
    with pytest.raises(ModelError, match=r"abstention\.required: required key is missing"):
        Abstention.from_dict(stored, 2)


def hesitant(*, wrong: int) -> OutOfFold:
    """200 cases of 3 classes: in every fifth two classes are near, 0.55 and 0.4; `wrong` of these 40 are the second."""
    y, near = np.arange(200) % 3, np.arange(0, 200, 5)
    probabilities = np.full((200, 3), 0.025)
    probabilities[np.arange(200), y] = 0.95
    probabilities[near] = 0.05
    probabilities[near, y[near]] = np.where(np.arange(40) < wrong, 0.4, 0.55)
    probabilities[near, (y[near] + 1) % 3] = np.where(np.arange(40) < wrong, 0.55, 0.4)
    return replace(train(200), probabilities=probabilities, y=y)


def test_a_conformal_rule_is_kept_where_it_withholds_enough_wrong_answers() -> None:
    # 30 true classes of 200 have 0.4, more than a tenth, so 0.4 is the threshold and both near classes reach it.
    rules = fit_abstention(hesitant(wrong=30))
    assert rules.conformal == pytest.approx(0.4)
    assert rules.rates["conformal"] == pytest.approx(0.2)


def test_a_conformal_rule_that_withholds_mostly_right_answers_is_left_off() -> None:
    """Thirty true classes have only 0.35, so that is the threshold; a hundred right answers of 0.6 have a second class
    of 0.37 beside them, which reaches it. No answer is wrong."""
    given, first = hesitant(wrong=0), np.arange(200)
    modest = np.full((200, 3), 0.025)
    modest[first, given.y] = 0.95
    modest[:30] = 0.325
    modest[first[:30], given.y[:30]] = 0.35
    modest[30:130] = 0.03
    modest[first[30:130], given.y[30:130]] = 0.6
    modest[first[30:130], (given.y[30:130] + 1) % 3] = 0.37
    assert conformal_threshold(modest, given.y) == pytest.approx(0.35)
    assert fit_abstention(replace(given, probabilities=modest)).conformal is None


def test_a_user_may_ask_for_a_conformal_rule_that_is_not_worth_it() -> None:
    assert fit_abstention(hesitant(wrong=0), {"conformal": 0.3}).conformal == 0.3
