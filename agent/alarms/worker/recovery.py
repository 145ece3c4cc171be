"""A console as rows of a changelogged table, such that any prefix of one input's rows can be undone. Pure.

The console's own row is written last and says which input is complete. A row of a later offset belongs to an input
that was cut off; it carries what it replaced, so the input can be taken again from where the console really stood.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import orjson

from agent.alarms.core.alarm import Json, alarm_from
from agent.alarms.core.clock import LogClock
from agent.alarms.core.console import AssetMemory, Console, Memory, StepResult
from agent.alarms.core.flood import Flood

_SEPARATOR = "\x1f"
_OFFSET = re.compile(rb'\{"offset":(\d+)')
CONSOLE, ALARM, ASSET, COMMAND = "console", "alarm", "asset", "command"


class RowKey(NamedTuple):
    console: str
    kind: str
    name: str

    def encoded(self) -> bytes:
        return _SEPARATOR.join(self).encode()

    @classmethod
    def decoded(cls, key: bytes) -> "RowKey":
        return cls(*key.decode().split(_SEPARATOR))


Row = tuple[bytes, bytes | None]


def rows_of(console: Console, outcome: StepResult, offset: int) -> Iterator[Row]:
    """What to write for one input, in this order. `console` is still as it was before the input; None removes."""
    for name, alarm in outcome.alarms.items():
        yield _row(RowKey(console.name, ALARM, name), offset, asdict(alarm), _dict(console.alarms.get(name)))
    for name, asset in outcome.assets.items():
        yield _row(RowKey(console.name, ASSET, name), offset, asdict(asset), _dict(console.assets.get(name)))
    for name, at in outcome.commands.items():
        key = RowKey(console.name, COMMAND, name)
        yield (key.encoded(), None) if at is None else _row(key, offset, {"at": at}, None)
    yield _row(RowKey(console.name, CONSOLE, ""), offset, asdict(outcome.memory), None)


class Restored(NamedTuple):
    """`offset`: the last input that is complete; −1 before the first."""

    console: Console
    offset: int


def restored(name: str, rows: Iterable[tuple[bytes, bytes]]) -> Restored:
    """The console as it was after its last complete input. Rows of other consoles are passed over."""
    own = [(key, orjson.loads(value)) for raw, value in rows if (key := RowKey.decoded(raw)).console == name]
    head = next((row for key, row in own if key.kind == CONSOLE), None)
    offset = -1 if head is None else int(head["offset"])
    console = Console(name)
    if head is not None:
        console.memory = _memory(head["value"])
    for key, row in own:
        value = row["value"] if row["offset"] <= offset else _undone(row)
        if value is not None:
            _put(console, key, value)
    return Restored(console, offset)


def is_older(row: bytes | None, known: bytes | None) -> bool:
    """Whether an earlier input wrote `row` than the one that wrote `known`. A removal (None) is never older."""
    return row is not None and known is not None and _offset(row) < _offset(known)


def _offset(row: bytes) -> int:
    """It stands first in every row, so that a recovery need not read the rest."""
    found = _OFFSET.match(row)
    return -1 if found is None else int(found[1])


def _row(key: RowKey, offset: int, value: Json, before: Json | None) -> Row:
    changed = None if before is None else {name: old for name, old in before.items() if old != value[name]}
    return key.encoded(), orjson.dumps({"offset": offset, "value": value, "before": changed})


def _undone(row: Mapping[str, Any]) -> Json | None:
    return None if row["before"] is None else {**row["value"], **row["before"]}


def _dict(value: Any) -> Json | None:
    return None if value is None else asdict(value)


def _put(console: Console, key: RowKey, value: Mapping[str, Any]) -> None:
    match key.kind:
        case "alarm":
            console.put(key.name, alarm_from(value))
        case "asset":
            ends = tuple((kind, end) for kind, end in value["ends"])
            console.assets[key.name] = AssetMemory(**{**value, "ends": ends})
        case "command":
            console.commands[key.name] = value["at"]


def _memory(value: Mapping[str, Any]) -> Memory:
    flood = value["flood"]
    return Memory(LogClock(**value["clock"]), Flood(flood["on"], tuple(flood["latest_ns"])))
