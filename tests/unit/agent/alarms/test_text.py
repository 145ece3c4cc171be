"""Text from outside on a terminal, in a log line or on a page."""

import json

from agent.alarms.kpis import Period, figures
from agent.alarms.report import report_html, report_text
from agent.alarms.text import count_held, json_text, printable
from agent.alarms.views import alarm_details, alarm_line
from tests.support.alarm_log import PRESENT_ALARM, at, catalogue, event, rule, run

EVIL = "pump\x1b[2J\r\n\x9b31m\u202e<script>alert(1)</script>"


def test_nothing_moves_the_cursor_or_begins_a_line() -> None:
    assert printable(EVIL).isprintable()
    assert len(printable("x" * 10_000, 100)) == 100
    assert json.loads(json_text({"a": EVIL})) == {"a": EVIL}
    assert json_text({"a": EVIL}).isprintable()


def test_a_listed_alarm_is_one_line_and_its_details_are_printable() -> None:
    hidden = {"by": EVIL, "why": EVIL, "until": None}
    evil = {**PRESENT_ALARM, "alarm": EVIL, "asset": EVIL, "console": EVIL, "out_of_service": hidden, "notice": EVIL}
    assert alarm_line(evil).isprintable()
    assert all(line.isprintable() for line in alarm_details(evil))


def test_a_report_shows_foreign_names_escaped() -> None:
    found = run(catalogue(rule()), [event(0, 0.9, asset="pump-<script>\x1b[2J")]).transitions
    period = Period(at(-10), at(600))
    assert found
    assert all(line.isprintable() for line in report_text(figures(found, period)))
    page = report_html(found, period)
    assert "<script" not in page
    assert "\x1b" not in page


def test_a_flood_that_holds_more_than_its_summary_lists_says_so() -> None:
    assert count_held(["a", "b"]) == "2"
    assert count_held(["a"] * 1_000) == "1000 or more"
