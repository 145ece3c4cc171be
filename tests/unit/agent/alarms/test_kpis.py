"""The key figures of ISA-18.2, worked out by hand, and the report of them."""

import pytest

from agent.alarms.core.transitions import transition_from
from agent.alarms.kpis import Period, figures
from agent.alarms.messages import transition_data
from agent.alarms.report import report_html, report_text
from tests.support.alarm_log import Run, at, catalogue, command, event, rule

HOUR = Period(at(0), at(3600))


def transitions() -> Run:
    """Pump 1: raised at 0, acknowledged at 30, over at 60; chatters from 1000. Pump 2: raised at 700, stays."""
    run = Run(catalogue(rule())).apply(event(0, 0.9), command(30, "ack"), event(60, 0.1))
    run.apply(event(700, 0.9, asset="pump-2"), command(790, "ack", "wear:pump-2"))
    for second in (1000, 1020, 1040):
        run.apply(event(second, 0.9), event(second + 5, 0.1))
    return run


def test_the_figures_of_an_hour() -> None:
    [found] = figures(transitions().transitions, HOUR)
    assert found.announced == 5
    assert found.per_ten_minutes == (1, 4, 0, 0, 0, 0)
    assert found.rate == pytest.approx(5 / 6)
    assert found.flood_share == 0
    assert found.bad_actors == (("wear:pump-1", 4), ("wear:pump-2", 1))
    assert found.chattering == ("wear:pump-1",)
    assert found.fleeting == 3
    assert found.priorities == {"high": 5}
    assert found.acknowledge_s == (30.0, 90.0)
    assert found.median_acknowledge_s == 60.0


def test_more_than_ten_in_ten_minutes_count_as_time_in_flood() -> None:
    plant = catalogue(rule(), limits={"flood_count": 100})
    run = Run(plant).apply(*(event(second, 0.9, asset=f"pump-{second}") for second in range(11)))
    [found] = figures(run.transitions, HOUR)
    assert found.flood_share == pytest.approx(1 / 6)


def test_an_alarm_that_is_active_for_days_is_stale_on_each_day_after_the_first() -> None:
    run = Run(catalogue(rule())).apply(event(0, 0.9))
    assert [one.most_stale for one in figures(run.transitions, Period(at(0), at(86_400)))] == [0]
    assert [one.most_stale for one in figures(run.transitions, Period(at(0), at(3 * 86_400)))] == [1]


def test_an_end_in_the_future_makes_no_alarm_stale_and_no_rate_lower() -> None:
    run = Run(catalogue(rule())).apply(event(0, 0.9))
    period = Period(at(0), at(10 * 86_400)).until(at(3600))
    [found] = figures(run.transitions, period)
    assert (found.most_stale, found.rate) == (0, 1 / 6)
    assert period == HOUR
    assert HOUR.until(at(7200)) == HOUR


def test_outside_the_period_nothing_counts() -> None:
    [found] = figures(transitions().transitions, Period(at(2000), at(3000)))
    assert (found.announced, found.chattering, found.fleeting, found.acknowledge_s) == (0, (), 0, ())


def test_a_published_transition_reads_back_unchanged() -> None:
    published = transitions().transitions
    assert [transition_from(transition_data(one)) for one in published] == published


def test_the_text_shows_targets_and_which_are_missed() -> None:
    text = "\n".join(report_text(figures(transitions().transitions, HOUR)))
    assert "alarms per 10 min" in text
    assert "about 1, at most 2" in text
    assert next(line for line in text.splitlines() if "chattering" in line).endswith("MISSED")
    assert list(report_text([])) == ["no transitions in this period"]


def test_the_page_needs_no_other_file_and_shows_the_plots() -> None:
    text = report_html(transitions().transitions, HOUR)
    assert text.count("<svg") == 2
    assert "http" not in text
    assert "<script" not in text
    assert "wear:pump-1: 4" in text
    assert "not a primary alarm" in text
