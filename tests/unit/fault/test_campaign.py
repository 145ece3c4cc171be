"""The campaign's ledger, plan and page: runs accumulate, unfinished rounds show, every kind has its row."""

from pathlib import Path

import pytest

from agent.chaos.faults import FAULTS
from tests.fault.campaign_ledger import Round, annotate, append_round, next_seed, read_rounds
from tests.fault.campaign_report import page
from tests.fault.campaign_rounds import PROFILES, plan_rounds
from tests.fault.descriptions import DESCRIPTIONS

COUNTS = {"records": 100, "expected": 10, "published": 12, "repeated": 2, "conflicts": 0, "history_lost": 0}


def a_round(seed: int, *, lost: int = 0, failure: str | None = None, unreported: tuple[str, ...] = ()) -> Round:
    fault = {"fault": "agent-kill", "recovered_s": 4.0 + seed, "goal_s": 15.0, "note": ""}
    return Round(
        seed=seed,
        profile="single",
        commit="abc",
        date="2026-01-01 00:00 UTC",
        seconds=90.0,
        load=(1.0, 2.0),
        faults=[fault],
        counts=COUNTS,
        lost=lost,
        extra=0,
        different=0,
        wrong_states=[],
        unreported=unreported,
        failure=failure,
    )


def test_a_ledger_is_continued_and_a_broken_line_left_out(tmp_path: Path) -> None:
    ledger = tmp_path / "faults.jsonl"
    append_round(ledger, a_round(2))
    with ledger.open("ab") as out:
        out.write(b'{"seed": 3, "prof')
    append_round(ledger, a_round(1))
    rounds = read_rounds(ledger)
    assert [(each.seed, each.counts, each.failure) for each in rounds] == [(1, COUNTS, None), (2, COUNTS, None)]
    assert next_seed(rounds, 1) == 3
    assert next_seed([], 7) == 7


@pytest.mark.parametrize(
    "wrong", [a_round(1, lost=1), a_round(1, failure="no recovery"), a_round(1, unreported=("log_replaced",))]
)
def test_a_round_is_the_same_only_if_nothing_is_wrong(wrong: Round) -> None:
    assert a_round(1).same
    assert not wrong.same


def test_the_plan_has_every_profile_and_as_many_faults_as_wanted() -> None:
    plans = plan_rounds(200, 20, 1)
    assert {plan.profile for plan in plans} == set(PROFILES) - {"brokers-cut", "single-sticky"}
    assert sum(plan.count for plan in plans) == 200
    assert [plan.seed for plan in plans] == list(range(1, len(plans) + 1))


def test_a_continued_campaign_goes_on_in_the_same_order() -> None:
    whole, rest = plan_rounds(200, 20, 1), plan_rounds(100, 20, 4)
    assert [plan.profile for plan in rest[:4]] == [plan.profile for plan in whole[3:7]]


def test_faults_of_an_unfinished_round_do_not_count() -> None:
    text = page([a_round(1), a_round(2), a_round(3, failure="no recovery within 120 s\nmore")], 3)
    assert "2 faults of 1 kinds in 3 rounds" in text
    assert "| rounds that could not be finished | 1 |" in text
    assert "Round 3: no recovery within 120 s: 0 lost, 0 extra, 0 different; **not mended**." in text
    assert "| agent-kill | kill -9 of an agent | 2 | 5.5 | 6.0 | 6.0 | 15 | 0 |" in text


def test_rounds_that_found_something_and_rounds_that_do_not_count_are_told_apart(tmp_path: Path) -> None:
    ledger = tmp_path / "faults.jsonl"
    for each in (a_round(1), a_round(2, lost=3), a_round(3, lost=5)):
        append_round(ledger, each)
    annotate(ledger, {2}, mended="abc1234")
    annotate(ledger, {3}, dismissed="the judge was wrong")
    text = page(read_rounds(ledger), 1)
    assert "2 faults of 1 kinds in 2 rounds" in text
    assert "| **lost** | 3 | 0 |" in text
    assert "- Round 2 (single): 3 lost, 0 extra, 0 different; mended in abc1234." in text
    assert "- 1: the judge was wrong." in text


def test_there_are_at_least_thirty_kinds() -> None:
    assert len(FAULTS | DESCRIPTIONS) >= 30
