import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agent.contracts.published import SensorEvent
from agent.health.counters import Counters
from agent.runtime.instruments import Instruments
from agent.terminal.story import headline
from connectors.memory import MemorySink
from tests.support.plant import data_of, filled, pumps, run, strict_judge

HEALTHY = [-1.0, 1.0] * 6
DEAD = -9999.0


def published(flows: Sequence[float | None], **options: Any) -> list[dict[str, Any]]:
    _, sink = asyncio.run(run(filled(flows), group=pumps(judge=strict_judge()), **options))
    return data_of(sink)


def about_sensors(events: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [
        (one["type"], one["channel"], one["finding"]) for one in events if one["type"].startswith("sensor")
    ]  # fmt: skip


def test_a_sensor_that_dies_and_comes_back_is_told_twice() -> None:
    events = published([*HEALTHY, *[DEAD] * 6, *HEALTHY])
    assert about_sensors(events) == [
        ("sensor_unhealthy", "flow", "sentinel"),
        ("sensor_healthy", "flow", "sentinel"),
    ]
    bad, good = (one for one in events if one["type"].startswith("sensor"))
    assert (bad["value"], bad["masked"], bad["kind"]) == (DEAD, True, "technical")
    assert (bad["since"], good["since"]) == ("1970-01-01T00:01:52Z", "1970-01-01T00:01:58Z")
    assert bad["normal"] == {"low": -1.25, "high": 1.25}
    assert good["value"] in (-1.0, 1.0)
    for event in (bad, good):
        SensorEvent.model_validate(event, strict=False)


def test_while_it_is_dead_the_state_is_unknown_and_says_which_sensor() -> None:
    states = [one for one in published([*HEALTHY, *[DEAD] * 6, *HEALTHY]) if one["type"] == "state"]
    [unknown] = [one for one in states if one["abstention"] == "implausible_values"]
    [sample] = unknown["window"]["implausible"]
    assert (sample["channel"], sample["finding"], sample["value"]) == ("flow", "sentinel", DEAD)
    assert "flow sentinel -9999" in headline(unknown)


def test_without_rules_nothing_is_said_about_sensors() -> None:
    _, sink = asyncio.run(run(filled([*HEALTHY, *[DEAD] * 6, *HEALTHY])))
    assert about_sensors(data_of(sink)) == []
    assert all("implausible" not in one["window"] for one in data_of(sink) if one["type"] == "state")


def test_a_dead_sensor_that_falls_silent_is_no_longer_unhealthy_and_has_no_value() -> None:
    events = published([*HEALTHY, *[DEAD] * 6, *[None] * 8, *HEALTHY])
    [over] = [one for one in events if one["type"] == "sensor_healthy"]
    assert over["value"] is None
    assert "channel_dropout" in [one["type"] for one in events]
    assert headline(over) == "p1: sensor flow is plausible again (sentinel is over), no data now"


def test_sensors_are_counted_by_what_was_found() -> None:
    counters = Counters()
    published([*HEALTHY, *[DEAD] * 6, *HEALTHY], instruments=Instruments(counters=counters))
    assert counters.sensor_faults == {"sentinel": 1}
    assert counters.events["sensor_unhealthy"] == counters.events["sensor_healthy"] == 1


@pytest.mark.parametrize("records", [1, 2, 5, 100])
def test_the_cutting_of_the_log_changes_no_sensor_event(records: int) -> None:
    from agent.runtime.pipeline import PipelineLimits

    flows = [*HEALTHY, DEAD, 1.0, -1.0, *[60.0] * 3, *HEALTHY, *[0.3] * 4, *HEALTHY]
    limits = PipelineLimits(max_records=records, checkpoint_records=7, poll_timeout_s=0.01)
    assert about_sensors(published(flows, limits=limits)) == about_sensors(published(flows))
    assert about_sensors(published(flows))


def test_a_line_tells_the_sensor_its_fault_its_value_and_what_is_normal() -> None:
    bad = next(one for one in published([*HEALTHY, *[DEAD] * 6]) if one["type"] == "sensor_unhealthy")
    assert headline(bad) == (
        "p1: sensor flow sends a code instead of a value: -9999 since 00:01:52 (normal -1.25 to 1.25), not used"
    )


def test_a_sink_holds_them_beside_the_states() -> None:
    sink = MemorySink()
    published([*HEALTHY, *[DEAD] * 6], sink=sink)
    kinds = [one["type"] for one in data_of(sink)]
    assert kinds.count("sensor_unhealthy") == 1
    assert kinds.count("state") >= 2
