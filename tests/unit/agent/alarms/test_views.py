"""Alarms as text in the terminal."""

from typing import Any

import orjson
import pytest

from agent.alarms.core.lifecycle import duration_text
from agent.alarms.messages import alarm_data
from agent.alarms.views import alarm_details, alarm_line, urgency
from tests.support.alarm_log import Run, catalogue, command, event, rule

PLANT = catalogue(rule())
PATCHES = [
    {"start": "a", "end": "b", "contribution": 0.5, "channels": [{"name": "flow", "effect": 1.0}]},
    {"start": "b", "end": "c", "contribution": -2.5, "channels": []},
]


def present(run: Run, name: str = "wear:pump-1") -> dict[str, Any]:
    return dict(orjson.loads(orjson.dumps(alarm_data("hall", PLANT, run.console.alarms[name]))))


def raised() -> Run:
    return Run(PLANT).apply(event(0.5, 0.9, evidence={"supporting": 1.0, "opposing": 0.0, "patches": PATCHES}))


def test_the_details_say_why_what_to_do_and_how_soon() -> None:
    lines = list(alarm_details(present(raised())))
    assert lines[0] == "wear:pump-1 at console hall: unacknowledged, priority high"
    assert lines[1] == "  raised 2023-11-14T22:13:20Z (once); returned -"
    assert "  action: change over to the spare" in lines
    assert "  respond within 10 min" in lines
    assert lines[lines.index("  raised by: worn until 2023-11-14T22:13:20Z, probability 0.900") + 1 :][:2] == [
        "    b–c -2.50",
        "    a–b +0.50 (flow)",
    ]


def test_the_details_have_the_sentence_of_the_event_and_its_spans() -> None:
    spans = [{"start": "a", "end": "b", "contribution": 0.5, "channels": ["flow", "p"], "share": 0.1, "expert": "e"}]
    evidence = {"supporting": 1.0, "opposing": 0.0, "spans": spans}
    run = Run(PLANT).apply(event(0.5, 0.9, evidence=evidence, text="flow 3 against 5 normal"))
    lines = list(alarm_details(present(run)))
    assert lines[lines.index("  raised by: worn until 2023-11-14T22:13:20Z, probability 0.900") + 1 :][:2] == [
        "    flow 3 against 5 normal",
        "    a–b +0.50 (flow, p)",
    ]


def test_a_shelved_alarm_says_who_shelved_it_and_until_when() -> None:
    shown = alarm_line(present(raised().apply(command(5, "shelve", until=50))))
    assert shown.startswith("shelved         high   2023-11-14T22:13:20  wear:pump-1")
    assert shown.endswith("(shelved by ada until 2023-11-14T22:14:10Z: on my way)")


def test_unacknowledged_alarms_come_first() -> None:
    run = raised().apply(event(1, 0.9, asset="pump-2"), command(2, "ack", "wear:pump-1"))
    shown = sorted((present(run, name) for name in run.console.alarms), key=urgency)
    assert [one["alarm"] for one in shown] == ["wear:pump-2", "wear:pump-1"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(45, "45 s"), (90, "90 s"), (600, "10 min"), (28_800, "8 h"), (172_800, "2 d")]
)
def test_durations_are_printed_in_the_largest_unit_that_fits(seconds: float, words: str) -> None:
    assert duration_text(seconds) == words
