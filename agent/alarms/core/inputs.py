"""The inputs of the state machine (events, commands, ticks) and their encoding in the input log. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import orjson

from agent.alarms.core.alarm import Json
from agent.alarms.core.event_data import check_event_data, is_name
from connectors.errors import RecordError, shorten
from connectors.timestamps import END_NS, format_iso, parse_utc

Verb = Literal["ack", "shelve", "unshelve", "out-of-service", "in-service", "reset", "comment"]
VERBS: tuple[str, ...] = get_args(Verb)
MAX_INPUT_BYTES = 131_072
"""An alarm keeps two events, and its row what it replaces too: four of them fit into a Kafka record of 1 MB."""
_LONGEST_TEXT = 2_000
_LONGEST = {"id": 200, "type": 100, "asset": 256, "group": 100, "alarm": 512, "by": 200}


@dataclass(frozen=True, slots=True)
class EventInput:
    """A published event, reduced to what alarms need. `end_ns` is event time, `time_ns` when it entered the log."""

    id: str
    time_ns: int
    type: str
    asset: str
    group: str
    end_ns: int
    data: Json = field(default_factory=dict)

    @property
    def channel(self) -> str | None:
        """What an alarm of one channel is about; a sensor may have several faults at once."""
        channel, finding = self.data.get("channel"), self.data.get("finding")
        return channel if channel is None or finding is None else f"{channel}/{finding}"


@dataclass(frozen=True, slots=True)
class Command:
    """A person's command for an alarm. `until_ns` is for shelving."""

    id: str
    time_ns: int
    verb: Verb
    alarm: str
    by: str
    why: str
    until_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """The passing of time."""

    time_ns: int

    @property
    def id(self) -> str:
        return f"tick:{self.time_ns}"


Input = EventInput | Command | Tick


def encode_input(entry: Input) -> bytes:
    """The value of a message in the input log; the key is the console."""
    return orjson.dumps({"id": entry.id, "time": format_iso(entry.time_ns), **_body(entry)})


def decode_input(value: bytes | None) -> Input:
    """Raises RecordError for anything that is not an input."""
    if len(value or b"") > MAX_INPUT_BYTES:
        raise RecordError("too_large", f"{len(value or b'')} bytes; an input has at most {MAX_INPUT_BYTES}")
    try:
        entry = orjson.loads(value or b"")
    except orjson.JSONDecodeError as error:
        raise RecordError("malformed", f"no JSON: {error}") from error
    if not isinstance(entry, dict):
        raise RecordError("malformed", "not a JSON object")
    at = parse_time(entry.get("time"), "time")
    match entry.get("kind"):
        case "tick":
            return Tick(at)
        case "event":
            return _event(entry, at)
        case "command":
            return _command(entry, at)
        case other:
            raise RecordError("malformed", f"kind: {shorten(other)} is not event, command or tick", field="kind")


def _body(entry: Input) -> dict[str, Any]:
    match entry:
        case Tick():
            return {"kind": "tick"}
        case Command():
            until = None if entry.until_ns is None else format_iso(entry.until_ns)
            facts = {"verb": entry.verb, "alarm": entry.alarm, "by": entry.by, "why": entry.why, "until": until}
            return {"kind": "command", **facts}
        case EventInput():
            about = {"type": entry.type, "asset": entry.asset, "group": entry.group, "end": format_iso(entry.end_ns)}
            return {"kind": "event", **about, "data": entry.data}


def _event(entry: Mapping[str, Any], at: int) -> EventInput:
    names = {name: _text(entry, name) for name in ("id", "type", "asset", "group")}
    data = entry.get("data")
    if not isinstance(data, dict):
        raise RecordError("malformed", "data: missing", field="data")
    check_event_data(data)
    if data.get("published") is not None:
        parse_time(data["published"], "published")
    return EventInput(time_ns=at, end_ns=parse_time(entry.get("end"), "end"), data=data, **names)


def _command(entry: Mapping[str, Any], at: int) -> Command:
    verb = entry.get("verb")
    if verb not in VERBS:
        raise RecordError("malformed", f"verb: {shorten(verb)} is not one of {', '.join(VERBS)}", field="verb")
    names = {name: _text(entry, name) for name in ("id", "alarm", "by")}
    why, until = entry.get("why") or "", entry.get("until")
    if not isinstance(why, str) or len(why) > _LONGEST_TEXT:
        raise RecordError("malformed", f"why: must be a string of at most {_LONGEST_TEXT} characters", field="why")
    if not why.replace("\n", " ").isprintable():
        raise RecordError("malformed", "why: has control characters", field="why")
    until_ns = None if until is None else parse_time(until, "until")
    return Command(time_ns=at, verb=verb, why=why, until_ns=until_ns, **names)


def parse_time(text: object, field: str) -> int:
    """A time between 1970 and 2116, whose sums and differences fit into 64 bits. Raises RecordError."""
    shown = text if text is None or (isinstance(text, str) and len(text) <= 40) else shorten(text)
    time_ns = parse_utc(shown, field)
    if not 0 <= time_ns < END_NS:
        raise RecordError("bad_time", f"{field}: {shown} is outside 1970–2116", field=field)
    return time_ns


def _text(entry: Mapping[str, Any], name: str) -> str:
    value, longest = entry.get(name), _LONGEST[name]
    if not isinstance(value, str) or not is_name(value, longest):
        wanted = f"must be a string of 1 to {longest} characters, without control characters"
        raise RecordError("malformed", f"{name}: {wanted}", field=name)
    return value
