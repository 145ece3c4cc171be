"""What `validate` reports about alarms, and the catalogue that is made of the settings."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.alarms.from_settings import catalogue_from_settings
from agent.settings import examine

EXAMPLE = Path(__file__).parents[4] / "configs" / "alarms.yaml"


def problems(tmp_path: Path, change: Any) -> list[str]:
    content = yaml.safe_load(EXAMPLE.read_text())
    change(content)
    path = tmp_path / "plant.yaml"
    path.write_text(yaml.safe_dump(content))
    return [str(one) for one in examine(path, {}, with_bundles=False).problems]


def test_the_example_has_no_problems() -> None:
    examination = examine(EXAMPLE, {}, with_bundles=False)
    assert examination.problems == ()
    assert examination.loaded is not None
    plant = examination.loaded.settings
    assert plant.alarms is not None
    rules = catalogue_from_settings(plant, plant.alarms).rules
    assert rules["cavitation"].on_delay_ns == 10_000_000_000
    assert rules["cavitation"].rationale.priority == "high"
    assert rules["bearing-wear"].suppressed_by == {"cavitation"}
    assert {rule.kind for rule in rules.values()} == {"process", "technical"}


@pytest.mark.parametrize("field", ["priority", "cause", "consequence", "action", "respond_within"])
def test_a_rule_without_a_complete_rationale_is_reported_and_not_used(tmp_path: Path, field: str) -> None:
    def drop(content: Any) -> None:
        del content["alarms"]["rules"][0][field]

    [problem] = problems(tmp_path, drop)
    assert problem.startswith(f"alarms.rules[0]: cavitation is not used, because it lacks {field};")
    plant = examine(tmp_path / "plant.yaml", {}, with_bundles=False).loaded
    assert plant is not None
    assert plant.settings.alarms is not None
    assert "cavitation" not in catalogue_from_settings(plant.settings, plant.settings.alarms).rules


@pytest.mark.parametrize(
    ("emission", "expected"),
    [
        ({"policy": "all"}, None),
        ({"policy": "changes+heartbeat", "heartbeat": "5s"}, None),
        (
            {"policy": "changes+heartbeat", "heartbeat": "6s"},
            "emission.heartbeat: 6s is more than half of the shortest",
        ),
        ({"policy": "changes"}, "emission.policy: changes: alarms with delays need events while a state lasts"),
    ],
)
def test_delays_need_events(tmp_path: Path, emission: dict[str, str], expected: str | None) -> None:
    found = problems(tmp_path, lambda content: content.update(emission=emission))
    assert [one.startswith(expected or "-") for one in found] == ([] if expected is None else [True])


def _of_rule(**changes: Any) -> Any:
    return lambda content: content["alarms"]["rules"][0].update(changes)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_of_rule(group="fans"), "alarms.rules[0].group: there is no group fans"),
        (_of_rule(technical="no_data"), "alarms.rules[0].states: a rule is for states or for one technical condition"),
        (_of_rule(clear_below=0.7), "alarms.rules[0].clear_below: 0.7 is above raise_at"),
        (_of_rule(name="flood"), "alarms.rules[0].name: flood is reserved for the summary"),
        (_of_rule(suppressed_by=["ghost"]), "alarms.rules[0].suppressed_by: there is no rule ghost"),
        (_of_rule(suppressed_by=["cavitation"]), "alarms.rules[0].suppressed_by: an alarm cannot suppress itself"),
        (_of_rule(limit="5s"), "alarms.rules[0].limit: has no effect"),
        (_of_rule(name="blockage"), "alarms.rules[2].name: duplicate name blockage"),
        (
            lambda content: content["alarms"].update(topics={"inputs": "events"}),
            "alarms.topics.inputs: topic events is used",
        ),
        (
            lambda content: content["alarms"].update(topics={"audit": "alarms"}),
            "alarms.topics.audit: alarms is used twice",
        ),
        (
            lambda content: content["alarms"].update(consoles=[{"name": "x", "assets": ["fan-*"]}]),
            "alarms.consoles: no console shows pump-* of group pumps",
        ),
        (lambda content: content.update(sinks=[{"kind": "console"}]), "alarms: no sink is of kind kafka"),
        (
            lambda content: content["alarms"].update(flood={"over_below": 11}),
            "alarms.flood.over_below: 11 would end a flood",
        ),
        (lambda content: content["alarms"].update(http={"host": "0.0.0.0"}), "alarms.http.token: missing"),
    ],
)
def test_a_mistake_is_reported_with_its_field(tmp_path: Path, change: Any, expected: str) -> None:
    assert any(one.startswith(expected) for one in problems(tmp_path, change)), problems(tmp_path, change)
