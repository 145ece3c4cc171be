"""Published alarms, transitions and audit records match their contracts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest
from pydantic import BaseModel

from agent.alarms.core.inputs import Input
from agent.alarms.core.step import step
from agent.alarms.messages import step_messages
from agent.cli.config import PRINTERS
from agent.contracts import alarms as contracts
from agent.contracts.alarms import ALARMS, AUDIT, TRANSITIONS
from agent.contracts.json_schema import alarm_schema, audit_schema, transition_schema
from tests.support.alarm_log import Run, catalogue, command, event, rule, technical, tick

DOCUMENTS = Path(__file__).parents[4] / "docs" / "contracts"
MODELS: dict[str, tuple[type[BaseModel], Callable[[], dict[str, Any]]]] = {
    TRANSITIONS: (contracts.AlarmTransition, transition_schema),
    ALARMS: (contracts.PresentAlarm, alarm_schema),
    AUDIT: (contracts.AuditRecord, audit_schema),
}
PLANT = catalogue(rule(latched=True), rule("lost", technical="channel_dropout"), limits={"flood_count": 1})
LOG: list[Input] = [
    event(0, 0.9),
    command(1, "ack"),
    event(2, 0.1),
    command(3, "reset"),
    command(4, "shelve", until=90),
    command(5, "out-of-service"),
    technical(6, "channel_dropout", channel="flow"),
    event(7, 0.9, asset="pump-2"),
    tick(900),
]


def published() -> list[tuple[str, Any, dict[str, str]]]:
    run, found = Run(PLANT), []
    for entry in LOG:
        result = step(run.console, PLANT, entry)
        for one in step_messages("hall", PLANT, result):
            found.append((one.stream, orjson.loads(one.value or b""), {n: v.decode() for n, v in one.headers}))
        run.record(result)
    return found


def test_everything_published_fits_its_model_its_schema_and_its_headers() -> None:
    assert {stream for stream, _, _ in published()} == set(MODELS)
    for stream, data, headers in published():
        model, schema = MODELS[stream]
        model.model_validate_json(orjson.dumps(data))
        jsonschema.validate(data, schema())
        contracts.AlarmHeaders.model_validate_json(orjson.dumps(headers))
        assert headers["dataschema"] == schema()["$id"]


@pytest.mark.parametrize("name", ["alarm", "alarm-transition", "alarm-audit"])
def test_the_written_alarm_contracts_are_fresh(name: str) -> None:
    """If this fails: anchormoe-agent schema NAME > docs/contracts/NAME.schema.json, and raise VERSION."""
    assert (DOCUMENTS / f"{name}.schema.json").read_text(encoding="utf-8") == PRINTERS[name]() + "\n"


@pytest.mark.parametrize(
    "model", [one for one in vars(contracts).values() if isinstance(one, type) and issubclass(one, BaseModel)]
)
def test_every_field_of_the_alarm_contracts_says_what_it_means(model: type[BaseModel]) -> None:
    assert all(field.description for field in model.model_fields.values())
