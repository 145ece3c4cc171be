"""When an event raises an alarm: dead-band, evidence, delays, technical conditions, invalid input."""

from dataclasses import replace

import pytest

from connectors.timestamps import format_iso
from tests.support.alarm_log import Run, S, at, catalogue, command, event, rule, technical, tick

DELAYED = catalogue(rule(on_delay_ns=30 * S, off_delay_ns=20 * S))


def test_between_the_two_thresholds_nothing_changes() -> None:
    run = Run(catalogue(rule()))
    assert [
        run.apply(event(second, chance)).state() for second, chance in enumerate([0.55, 0.6, 0.45, 0.39, 0.59])
    ] == [
        "normal",
        "unacknowledged",
        "unacknowledged",
        "returned",
        "returned",
    ]


def test_little_evidence_raises_nothing() -> None:
    plant = catalogue(rule(min_evidence_share=0.7))
    weak = {"class": "worn", "supporting": 2.0, "opposing": -1.0}
    assert Run(plant).apply(event(0, 0.9, evidence=weak)).state() == "normal"
    assert Run(plant).apply(event(0, 0.9, evidence=weak | {"opposing": -0.8})).state() == "unacknowledged"


def test_a_fault_shorter_than_the_on_delay_is_no_alarm() -> None:
    run = Run(DELAYED).apply(event(0, 0.9), event(10, 0.9), event(29, 0.1), event(60, 0.9), event(70, 0.9))
    assert run.transitions == []


def test_the_on_delay_runs_in_event_time_however_fast_events_arrive() -> None:
    """After an outage an hour of events may enter the log within a second."""
    caught_up = [replace(event(second, 0.9), time_ns=at(4000)) for second in (0, 10, 20, 30)]
    run = Run(DELAYED).apply(*caught_up[:3])
    assert run.state() == "normal"
    assert run.apply(caught_up[3]).state() == "unacknowledged"


def test_without_events_ticks_let_the_delays_run_out() -> None:
    run = Run(DELAYED).apply(event(0, 0.9, later=2), tick(31))
    assert run.state() == "normal"  # received at second 2, so the asset's clock is at 29
    assert run.apply(tick(32)).state() == "unacknowledged"
    run.apply(event(40, 0.1, later=2), tick(61))
    assert run.state() == "unacknowledged"
    assert run.apply(tick(62)).state() == "returned"


def test_a_short_recovery_does_not_end_the_alarm() -> None:
    run = Run(DELAYED).apply(
        event(0, 0.9), event(30, 0.9), event(40, 0.1), event(50, 0.9), event(65, 0.1), event(84, 0.1)
    )
    assert run.state() == "unacknowledged"
    assert run.apply(event(85, 0.1)).state() == "returned"


@pytest.mark.parametrize("unknown", [{"state": "unknown"}, {"probabilities": None}])
def test_an_unknown_state_neither_raises_nor_ends_an_alarm(unknown: dict[str, object]) -> None:
    run = Run(catalogue(rule())).apply(replace(event(0, 0.9), data={**event(0, 0.9).data, **unknown}))
    assert run.state() == "normal"
    run.apply(event(1, 0.9), replace(event(2, 0.0), data={**event(2, 0.0).data, **unknown}))
    assert run.state() == "unacknowledged"


def test_a_gap_restarts_the_on_delay() -> None:
    run = Run(DELAYED).apply(event(0, 0.9), technical(100, "gap"), event(110, 0.9))
    assert run.state() == "normal"
    assert run.apply(event(130, 0.9)).state() == "unacknowledged"


def test_the_alarm_carries_the_evidence_that_raised_it_and_the_strongest_since() -> None:
    run = Run(catalogue(rule())).apply(event(0, 0.7), event(1, 0.95), event(2, 0.8))
    alarm = run.console.alarms["wear:pump-1"]
    assert alarm.raised_by is not None
    assert alarm.strongest is not None
    assert (alarm.raised_by["event"], alarm.raised_by["probability"]) == ("e0-pump-1", 0.7)
    assert (alarm.strongest["event"], alarm.strongest["probability"]) == ("e1-pump-1", 0.95)
    assert alarm.raised_by["evidence"]["supporting"] == 3.0


def test_an_alarm_that_a_tick_raised_carries_the_last_evidence() -> None:
    run = Run(DELAYED).apply(event(0, 0.7), event(10, 0.8), tick(60))
    alarm = run.console.alarms["wear:pump-1"]
    assert alarm.raised_by is not None
    assert alarm.raised_by["event"] == "e10-pump-1"


def test_each_lost_channel_is_a_technical_alarm_of_its_own() -> None:
    run = Run(catalogue(rule("lost", technical="channel_dropout"))).apply(
        technical(0, "channel_dropout", channel="flow"), technical(1, "channel_dropout", channel="heat")
    )
    assert set(run.console.alarms) == {"lost:pump-1#flow", "lost:pump-1#heat"}
    run.apply(technical(5, "channel_back", channel="flow"))
    assert run.state("lost:pump-1#flow") == "returned"
    assert run.state("lost:pump-1#heat") == "unacknowledged"
    assert {one.kind for one in run.transitions} == {"technical"}


def test_each_finding_of_a_sensor_is_a_technical_alarm_of_its_own() -> None:
    run = Run(catalogue(rule("bad", technical="sensor_unhealthy")))
    frozen, far = (technical(0, "sensor_unhealthy", channel="flow") for _ in range(2))
    run.apply(
        replace(frozen, id="1", data={"channel": "flow", "finding": "frozen"}),
        replace(far, id="2", data={"channel": "flow", "finding": "range"}),
    )
    assert set(run.console.alarms) == {"bad:pump-1#flow/frozen", "bad:pump-1#flow/range"}
    over = technical(5, "sensor_healthy", channel="flow")
    run.apply(replace(over, data={"channel": "flow", "finding": "frozen"}))
    assert run.state("bad:pump-1#flow/frozen") == "returned"
    assert run.state("bad:pump-1#flow/range") == "unacknowledged"


def test_events_about_sensors_leave_other_rules_alone() -> None:
    run = Run(catalogue(rule(), rule("lost", technical="channel_dropout"), rule("silent", technical="clock_back")))
    told = technical(0, "sensor_unhealthy", channel="flow")
    run.apply(replace(told, data={"channel": "flow", "finding": "sentinel", "value": -9999.0}))
    assert run.console.alarms == {}


def test_no_data_is_raised_by_the_agents_event_and_by_a_time_without_events() -> None:
    plant = catalogue(rule("silent", technical="no_data", limit_ns=60 * S))
    run = Run(plant).apply(event(0, 0.1), tick(60))
    assert run.state("silent:pump-1") == "normal"
    assert run.apply(tick(61)).state("silent:pump-1") == "unacknowledged"
    assert run.apply(event(70, 0.1)).state("silent:pump-1") == "returned"
    assert run.apply(technical(80, "no_data")).state("silent:pump-1") == "unacknowledged"


def test_a_model_that_abstains_is_a_technical_alarm() -> None:
    run = Run(catalogue(rule("refused", technical="model_refused")))
    assert run.apply(event(0, 0.4, state="unknown")).state("refused:pump-1") == "unacknowledged"
    assert run.apply(event(1, 0.4)).state("refused:pump-1") == "returned"


def test_a_refused_bundle_is_raised_once_and_returns_by_itself() -> None:
    plant = catalogue(rule("refused", technical="model_refused", on_delay_ns=60 * S), groups={"pumps": ("pump-*",)})
    run = Run(plant).apply(technical(0, "model_refused", asset="pumps"))
    assert run.state("refused:pumps") == "unacknowledged"
    assert run.apply(tick(1)).state("refused:pumps") == "returned"
    assert run.apply(command(2, "ack", "refused:pumps")).state("refused:pumps") == "normal"


def test_an_agent_with_too_much_lag_is_a_technical_alarm() -> None:
    run = Run(catalogue(rule("lag", technical="agent_lag", limit_ns=30 * S)))
    assert run.apply(event(0, 0.1, later=30)).state("lag:pump-1") == "normal"
    assert run.apply(event(1, 0.1, later=32)).state("lag:pump-1") == "unacknowledged"
    assert run.apply(event(40, 0.1, later=2)).state("lag:pump-1") == "returned"


def test_the_lag_is_the_agents_however_late_the_alarm_workers_read_the_event() -> None:
    run = Run(catalogue(rule("late", technical="agent_lag", limit_ns=60 * S)))
    run.apply(event(0, 0.1, later=3600, published=format_iso(at(50))))
    assert run.state("late:pump-1") == "normal"
    assert run.apply(event(10, 0.1, later=3600, published=format_iso(at(80)))).state("late:pump-1") == "unacknowledged"
    assert run.apply(event(20, 0.1, later=3600, published=format_iso(at(80)))).state("late:pump-1") == "returned"


def test_a_group_with_events_about_a_refused_bundle_only_has_no_no_data_alarm() -> None:
    rules = [
        replace(rule("silent", technical="no_data", limit_ns=30 * S), assets=("*",)),
        rule("refused", technical="model_refused"),
    ]
    run = Run(catalogue(*rules)).apply(technical(0, "model_refused", asset="pumps"), event(0, 0.1), tick(60))
    assert run.state("refused:pumps") == "returned"
    assert run.state("silent:pumps") == "normal"
    assert run.state("silent:pump-1") == "unacknowledged"


def test_repeated_and_older_events_change_nothing() -> None:
    run = Run(catalogue(rule())).apply(event(10, 0.9), command(11, "ack"), event(20, 0.1))
    before = dict(run.console.alarms)
    run.apply(event(10, 0.9), event(20, 0.1), event(15, 0.9))
    assert run.console.alarms == before
    assert run.ignored == {"repeated_event": 3}


def test_events_that_are_too_old_or_in_the_future_are_counted_and_ignored() -> None:
    run = Run(catalogue(rule())).apply(tick(0), replace(event(-90_000, 0.9), time_ns=at(0)))
    run.apply(replace(event(90_000, 0.9), time_ns=at(1)))
    assert run.ignored == {"expired_event": 1, "event_from_the_future": 1}
    assert run.console.alarms == {}


def test_an_unknown_asset_is_counted_and_ignored() -> None:
    plant = catalogue(rule(), groups={"pumps": ("pump-*",)})
    assert Run(plant).apply(event(0, 0.9, asset="fan-1")).ignored == {"unknown_asset": 1}


def test_a_clock_jump_is_accepted_when_two_inputs_agree_on_it() -> None:
    run = Run(catalogue(rule())).apply(tick(0), tick(9_000), tick(1))
    assert run.console.state.clock.now_ns == at(1)
    assert run.ignored == {"clock_jump": 1}
    run.apply(tick(90_000), tick(90_001))
    assert run.console.state.clock.now_ns == at(90_001)


def test_small_steps_back_do_not_move_the_clock() -> None:
    run = Run(catalogue(rule())).apply(tick(100), tick(90))
    assert run.console.state.clock.now_ns == at(100)
