"""The doors of the alarm worker: its input log, and the events topic that it copies from."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import orjson

from agent.alarms.core.catalogue import Catalogue
from agent.alarms.core.inputs import encode_input
from agent.alarms.worker.consoles import AppliedInput, ConsoleWorker
from agent.alarms.worker.event_inputs import encode_event, event_input
from agent.contracts.received import parse_event
from connectors.errors import RecordError
from connectors.records import Partition, Record
from tests.fuzz.cases import Headers, Input, Outcome, shape
from tests.fuzz.mutation import NAMES, TOKENS, Node, mutate_bytes, mutate_document, parsed, write
from tests.support.alarm_log import S, at, catalogue, command, event, rule, technical, tick
from tests.support.event_samples import samples

INPUTS, EVENTS = "alarm-inputs", "alarm-events"
MAX_MESSAGE_BYTES = 1_048_576
_EVENTS_TOPIC = Partition("events", 0)
_KINDS = (
    "no_data",
    "channel_dropout",
    "channel_back",
    "sensor_unhealthy",
    "sensor_healthy",
    "clock_back",
    "model_refused",
    "gap",
    "state",
)
_FIELDS = tuple(
    b'"%b"' % name
    for name in (
        b"id", b"time", b"kind", b"verb", b"alarm", b"by", b"why", b"until", b"type", b"asset", b"group", b"end",
        b"data", b"state", b"probabilities", b"evidence", b"window", b"channel", b"last_sample", b"model",
    )
)  # fmt: skip
_TIMES = (b'"2262-04-12T00:00:00Z"', b'"9999-12-31T23:59:59.999999999Z"', b'"0001-01-01T00:00:00Z"')


def plant() -> Catalogue:
    return catalogue(
        rule(on_delay_ns=2 * S, off_delay_ns=3 * S, remind_every_ns=60 * S),
        rule("grip", latched=True, min_evidence_share=0.1, suppressed_by=frozenset({"wear"})),
        rule("quiet", technical="no_data", hides_children=True),
        rule("lost", technical="channel_dropout"),
        rule("lag", technical="agent_lag", limit_ns=60 * S),
        rule("clock", technical="clock_back", shelve_chatter_ns=60 * S),
        rule("refused", technical="model_refused"),
        consoles=[("hall", ("pump-*", "pumps")), ("yard", ("*",))],
        parents=[("pump-*", "skid-1")],
    )


@dataclass(frozen=True, slots=True)
class AlarmDoor:
    name: str
    variants: Sequence[str] = ("plain",)
    batch: int = 200
    renew_after: int = 2_000

    def open(self, variant: str) -> "AlarmSession":
        return AlarmSession(self.name)


class AlarmSession:
    def __init__(self, door: str) -> None:
        self._door, self._catalogue, self._second = door, plant(), 0
        self._table: dict[bytes, bytes] = {}
        self._worker = ConsoleWorker(self._catalogue, lambda: self._table.items())
        self._offset = 0

    def generate(self, rng: Random, count: int, pool: Sequence[Input]) -> list[Input]:
        return [self._event(rng, pool) if self._door == EVENTS else self._entry(rng, pool) for _ in range(count)]

    def feed(self, inputs: Sequence[Input]) -> Outcome:
        """After each batch the worker starts again from its rows: what it wrote it must be able to read."""
        outcome = Outcome()
        for index, each in enumerate(inputs):
            if self._door == EVENTS:
                self._copy(index, each, outcome)
            else:
                self._take(index, each.key, each.value, outcome)
        before = {console.name: console.alarms for console in self._worker.consoles}
        self._worker.forget()
        for name in before:
            self._take(len(inputs) - 1, name.encode(), encode_input(tick(self._second)), Outcome())
        return outcome

    def close(self) -> None:
        """Nothing is open."""

    def _copy(self, index: int, each: Input, outcome: Outcome) -> None:
        headers = [(name, value or b"") for name, value in each.headers]
        record = Record(index, each.timestamp, each.key, each.value, headers)
        try:
            entry = event_input(parse_event(record, _EVENTS_TOPIC), self._catalogue, at(self._second))
            value = b"" if entry is None else encode_event(entry)
        except RecordError as error:
            outcome.refused[error.reason] += 1
            outcome.traits.append((index, shape(error.detail)))
            return
        console = None if entry is None else self._catalogue.console_for(entry.group, entry.asset)
        if entry is None or console is None:
            outcome.ignored += 1
            return
        self._take(index, console.encode(), value, outcome)

    def _take(self, index: int, key: bytes | None, value: bytes | None, outcome: Outcome) -> None:
        self._worker.ignored.clear()
        applied = self._worker.take(key, value, self._offset, at(self._second))
        self._offset += 1
        for row, content in applied.rows:
            if content is None:
                self._table.pop(row, None)
            else:
                self._table[row] = content
        _check_messages(index, applied, outcome)
        if applied.rows:
            outcome.used += 1
        elif applied.messages:
            reason = next(iter(self._worker.ignored), "refused")
            outcome.refused[reason] += 1
            if reason == "internal":
                outcome.violate("internal", "an input raised inside the worker", index)
            audit = orjson.loads(applied.messages[0].value or b"{}")
            outcome.traits.append((index, shape(str(audit.get("reason")))))
        else:
            outcome.violate("silent", "an input without rows and without an audit entry", index)

    def _entry(self, rng: Random, pool: Sequence[Input]) -> Input:
        if pool and rng.random() < 0.15:
            earlier = rng.choice(pool)
            return Input(mutate_bytes(earlier.value or b"", rng), earlier.key)
        self._second += rng.choice([0, 0, 1, 1, 2, 30])
        key = rng.choice([b"hall", b"hall", b"yard"] if rng.random() < 0.95 else [None, b"", b"\xff", b"no\x1b[2J"])
        node = parsed(orjson.loads(self._good(rng)))
        return Input(_broken(node, rng), key)

    def _good(self, rng: Random) -> bytes:
        second, asset = self._second, rng.choice(["pump-1", "pump-2", "skid-1", "pumps", "fan-1", "p\u00fcmp"])
        kind = rng.random()
        if kind < 0.1:
            return encode_input(tick(second))
        if kind < 0.35:
            verb = rng.choice(["ack", "shelve", "unshelve", "out-of-service", "in-service", "reset", "comment"])
            until = second + rng.choice([5, 100, 10**6]) if verb == "shelve" else None
            alarm = f"{rng.choice(['wear', 'grip', 'quiet', 'flood'])}:{asset}"
            return encode_input(command(second, verb, alarm, until=until))
        if kind < 0.6:
            channel = rng.choice([None, "flow"])
            return encode_input(technical(second, rng.choice(_KINDS), asset=asset, channel=channel))
        return encode_input(event(second, rng.random(), asset=asset, window={"end": "2023-11-14T22:13:20Z"}))

    def _event(self, rng: Random, pool: Sequence[Input]) -> Input:
        if pool and rng.random() < 0.15:
            earlier = rng.choice(pool)
            return Input(mutate_bytes(earlier.value or b"", rng), earlier.key, earlier.headers, earlier.timestamp)
        self._second += rng.choice([0, 1])
        message = rng.choice(samples().events)
        headers: Headers = message.headers
        if rng.random() < 0.4:
            headers = _other_headers(headers, rng)
        stamp = rng.choice([at(self._second) // 1_000_000, -1, 0, 2**62, -(2**63)])
        return Input(_broken(parsed(orjson.loads(message.value or b"")), rng), message.key, headers, stamp)


def _broken(node: Node, rng: Random) -> bytes:
    if rng.random() < 0.15:
        return write(node)
    names = _FIELDS if rng.random() < 0.7 else NAMES
    for _ in range(rng.choice([1, 1, 2, 3])):
        node = _inside(node, rng, names) if rng.random() < 0.6 else mutate_document(node, rng, names)
    value = write(node)
    if rng.random() < 0.1:
        value = value.replace(b'"2023-11-14T22:13:20Z"', rng.choice(_TIMES))
    if rng.random() < 0.0005:
        value += b" " * 1_048_000
    return mutate_bytes(value, rng) if rng.random() < 0.15 else value


def _inside(node: Node, rng: Random, names: Sequence[bytes]) -> Node:
    """Not the outermost names, on which most messages would be refused at once."""
    if isinstance(node, list):
        inner = [at for at, (_, below) in enumerate(node) if not isinstance(below, bytes)]
        if inner:
            at = rng.choice(inner)
            name, below = node[at]
            return [*node[:at], (name, mutate_document(below, rng, names)), *node[at + 1 :]]
    return mutate_document(node, rng, names)


def _other_headers(headers: Headers, rng: Random) -> Headers:
    index = rng.randrange(len(headers))
    name, value = headers[index]
    kind = rng.random()
    if kind < 0.3:
        return headers[:index] + headers[index + 1 :]
    if kind < 0.7:
        return (*headers[:index], (name, rng.choice(TOKENS).strip(b'"')), *headers[index + 1 :])
    if kind < 0.8:
        return (*headers[:index], (name, None), *headers[index + 1 :])
    if kind < 0.9:
        return (*headers, (name, mutate_bytes(value or b"", rng)))
    kinds = [b"anchormoe.state", b"anchormoe.new_kind", b"anchormoe.no_data", b"", b"other", b"anchormoe."]
    return tuple((name, rng.choice(kinds) if name == "ce_type" else value) for name, value in headers)


def _check_messages(index: int, applied: AppliedInput, outcome: Outcome) -> None:
    for message in applied.messages:
        orjson.loads(message.value or b"")
        size = len(message.value or b"") + len(message.key or b"")
        if size > MAX_MESSAGE_BYTES:
            outcome.violate("letter_size", f"a message of {size} bytes to {message.stream}", index)
    for _, content in applied.rows:
        if content is not None and len(content) > MAX_MESSAGE_BYTES:
            outcome.violate("letter_size", f"a row of {len(content)} bytes", index)
