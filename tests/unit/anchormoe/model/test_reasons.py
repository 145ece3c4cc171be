"""The reasons for `unknown` in words: every rule has them, and the page that explains them is the same."""

from pathlib import Path

import pytest

from agent.events.sentence import LONGEST
from agent.models.classifier import HISTORY_LOST, INTERNAL, LOW_COVERAGE
from anchormoe.model.abstention import RULES
from anchormoe.model.judgement import IMPLAUSIBLE
from anchormoe.model.reasons import REASONS, short_reason

PAGE = Path(__file__).parents[4] / "docs" / "explanations.md"


def test_every_reason_of_the_model_and_of_the_agent_has_words() -> None:
    assert set(REASONS) == {*RULES, IMPLAUSIBLE, LOW_COVERAGE, HISTORY_LOST, INTERNAL}


@pytest.mark.parametrize("name", list(REASONS))
def test_the_page_says_the_same(name: str) -> None:
    reason = REASONS[name]
    looked_at = reason.look_at.removeprefix("look at ")
    assert f"| `{name}` | {reason.means} | {looked_at} | {reason.remedy} |" in PAGE.read_text(encoding="utf-8")
    assert len(f"{reason.means}: {reason.advice}") < LONGEST


def test_a_reason_nobody_knows_is_told_by_its_name() -> None:
    assert short_reason("sensor_fault") == "sensor fault"
    assert short_reason("low_margin") == "two states are too close to tell apart"
