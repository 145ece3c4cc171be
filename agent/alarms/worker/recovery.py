"""Consoles as rows of a table with a changelog, such that an input whose rows were written in part can be undone. Pure.

The console's own row is written last and names the last complete input. A row with a later offset belongs to an input
that was interrupted; the row contains what it replaced, so that the input can be applied again from the state before.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import orjson

from agent.alarms.core.alarm import Json, alarm_from_row
from agent.alarms.core.console import AssetClock, Console, ConsoleState, LogClock, StepResult
from agent.alarms.core.rates import Flood

_SEPARATOR = "\x1f"
_OFFSET = re.compile(rb'\{"offset":(\d+)')
CONSOLE, ALARM, ASSET, COMMAND = "console", "alarm", "asset", "command"


class RowKey(NamedTuple):
    console: str
    kind: str
    name: str

    def encode(self) -> bytes:
        return _SEPARATOR.join(self).encode()

    @classmethod
    def decode(cls, key: bytes) -> "RowKey":
        return cls(*key.decode().split(_SEPARATOR))


Row = tuple[bytes, bytes | None]


def step_rows(console: Console, result: StepResult, offset: int) -> Iterator[Row]:
    """The rows of one input, in the order to write them; None deletes. `console` is as it was before the input."""
    for name, alarm in result.alarms.items():
        yield _row(RowKey(console.name, ALARM, name), offset, alarm, console.alarms.get(name))
    for name, asset in result.assets.items():
        yield _row(RowKey(console.name, ASSET, name), offset, asset, console.assets.get(name))
    for name, at in result.commands.items():
        key = RowKey(console.name, COMMAND, name)
        yield (key.encode(), None) if at is None else _row(key, offset, {"at": at}, None)
    yield _row(RowKey(console.name, CONSOLE, ""), offset, result.state, None)


class RestoredConsole(NamedTuple):
    """`offset`: the last complete input; −1 before the first."""

    console: Console
    offset: int


def restore_console(name: str, rows: Iterable[tuple[bytes, bytes]]) -> RestoredConsole:
    """The console after its last complete input. Skips rows of other consoles."""
    start = f"{name}{_SEPARATOR}".encode()
    own = [(RowKey.decode(key), orjson.loads(value)) for key, value in rows if key.startswith(start)]
    head = next((row for key, row in own if key.kind == CONSOLE), None)
    offset = -1 if head is None else int(head["offset"])
    console = Console(name)
    if head is not None:
        console.state = _console_state(head["value"])
    for key, row in own:
        value = row["value"] if row["offset"] <= offset else _value_before(row)
        if value is not None:
            _put(console, key, value)
    return RestoredConsole(console, offset)


def is_older(row: bytes | None, known: bytes | None) -> bool:
    """Whether `row` was written by an earlier input than `known`. A deletion (None) is never older."""
    return row is not None and known is not None and _offset(row) < _offset(known)


def _offset(row: bytes) -> int:
    """The offset comes first in every row, so that a recovery need not parse the rest."""
    found = _OFFSET.match(row)
    return -1 if found is None else int(found[1])


def _row(key: RowKey, offset: int, value: Any, before: Any) -> Row:
    """Of a dataclass, which orjson writes field by field: copying its evidence first takes longer than all the rest."""
    changed = None if before is None else _differing(value, before)
    return key.encode(), orjson.dumps({"offset": offset, "value": value, "before": changed})


def _value_before(row: Mapping[str, Any]) -> Json | None:
    return None if row["before"] is None else {**row["value"], **row["before"]}


def _differing(value: Any, before: Any) -> Json:
    """The fields that were different before, as they were."""
    pairs = ((one.name, getattr(before, one.name), getattr(value, one.name)) for one in fields(value))
    return {name: old for name, old, new in pairs if old is not new and old != new}


def _put(console: Console, key: RowKey, value: Mapping[str, Any]) -> None:
    match key.kind:
        case "alarm":
            console.put(key.name, alarm_from_row(value))
        case "asset":
            ends = tuple((kind, end) for kind, end in value["ends"])
            console.assets[key.name] = AssetClock(**{**value, "ends": ends})
        case "command":
            console.commands[key.name] = value["at"]


def _console_state(value: Mapping[str, Any]) -> ConsoleState:
    flood = value["flood"]
    return ConsoleState(LogClock(**value["clock"]), Flood(flood["on"], tuple(flood["latest_ns"])))
