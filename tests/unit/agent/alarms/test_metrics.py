"""The key figures of ISA-18.2 as Prometheus metrics."""

from agent.alarms.counters import AlarmCounters
from agent.alarms.metrics import alarm_registry
from agent.health.metrics import exposition
from tests.support.alarm_log import Run, at, catalogue, command, event, rule

PLANT = catalogue(rule())


def scrape(run: Run, now: float) -> dict[str, float]:
    counters = AlarmCounters()
    counters.count(run.transitions, run.ignored)
    registry = alarm_registry(counters, lambda: [run.console], PLANT, lambda: at(now))
    lines = exposition(registry).decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def test_fleeting_alarms_bad_actors_and_the_time_to_acknowledge() -> None:
    run = Run(PLANT).apply(
        event(0, 0.9),
        command(30, "ack"),
        event(59, 0.1),  # fleeting
        event(100, 0.9),
        command(190, "ack"),
        event(200, 0.1),  # not fleeting
        event(300, 0.9, asset="pump-2"),
    )
    found = scrape(run, 310)
    assert found['anchormoe_alarms_fleeting_total{console="hall"}'] == 1
    assert found['anchormoe_alarm_acknowledge_seconds_count{console="hall"}'] == 2
    assert found['anchormoe_alarm_acknowledge_seconds_sum{console="hall"}'] == 30 + 90
    assert found['anchormoe_alarm_bad_actor_raises{alarm="wear:pump-1",console="hall"}'] == 2
    assert found['anchormoe_alarm_bad_actor_raises{alarm="wear:pump-2",console="hall"}'] == 1
    assert found['anchormoe_alarms_announced_total{console="hall",priority="high"}'] == 3
    assert found['anchormoe_alarm_rate_10min{console="hall"}'] == 3


def test_only_the_ten_most_frequent_alarms_have_a_label() -> None:
    run = Run(PLANT).apply(*(event(60 * number, 0.9, asset=f"pump-{number:02}") for number in range(12)))
    labels = [name for name in scrape(run, 700) if name.startswith("anchormoe_alarm_bad_actor_raises")]
    assert len(labels) == 10


def test_an_alarm_that_is_active_for_more_than_a_day_is_stale() -> None:
    run = Run(PLANT).apply(event(0, 0.9))
    assert scrape(run, 86_400)['anchormoe_alarms_stale{console="hall"}'] == 0
    assert scrape(run, 86_401)['anchormoe_alarms_stale{console="hall"}'] == 1
