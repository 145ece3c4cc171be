"""The door for JSON lines: what the sink writes comes back as it was; what others wrote is refused by line."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import orjson

from connectors.errors import ConnectorError, RecordError
from connectors.jsonl import from_line, to_line
from connectors.records import DEAD_LETTERS, EVENTS, Message
from tests.fuzz.cases import Input, Outcome, shape
from tests.fuzz.doors.record_bytes import HEADERS
from tests.fuzz.mutation import NAMES, TOKENS, mutate_bytes, mutate_document, nested, parsed, write

_NAMES = (*NAMES, b'"stream"', b'"key"', b'"headers"', b'"data"', b'"data_base64"', b'"key_base64"', b'"value_base64"')
WRITTEN, EDITED = "written", "edited"


@dataclass(frozen=True, slots=True)
class LineDoor:
    name: str = "json-lines"
    variants: Sequence[str] = (WRITTEN, EDITED)
    batch: int = 500
    renew_after: int = 1 << 60

    def open(self, variant: str) -> "LineSession":
        return LineSession(variant)


class LineSession:
    def __init__(self, variant: str) -> None:
        self._variant = variant

    def generate(self, rng: Random, count: int, pool: Sequence[Input]) -> list[Input]:
        messages = [_message(rng) for _ in range(count)]
        if self._variant == WRITTEN:
            return messages
        return [Input(_edit(to_line(_as_message(each)), rng, pool)) for each in messages]

    def feed(self, inputs: Sequence[Input]) -> Outcome:
        outcome = Outcome()
        for index, each in enumerate(inputs):
            if self._variant == WRITTEN:
                _write_and_read(index, each, outcome)
            else:
                _read(index, each.value or b"", outcome)
        return outcome

    def close(self) -> None:
        """Nothing is open."""


def _write_and_read(index: int, each: Input, outcome: Outcome) -> None:
    message = _as_message(each)
    line = to_line(message)
    if line.count(b"\n") != 1 or not line.endswith(b"\n"):
        outcome.violate("round_trip", "not one line", index)
    if from_line(line) != message:
        outcome.violate("round_trip", "the message does not come back as it was", index)
    outcome.used += 1


def _read(index: int, line: bytes, outcome: Outcome) -> None:
    try:
        message = from_line(line)
    except (RecordError, ConnectorError, ValueError) as error:  # what readers of a file expect
        outcome.refused[type(error).__name__] += 1
        outcome.traits.append((index, (type(error).__name__, shape(str(error)))))
        return
    outcome.used += 1
    to_line(message)  # what was read can be written again


def _message(rng: Random) -> Input:
    if rng.random() < 0.5:
        value: bytes | None = rng.choice(TOKENS) if rng.random() < 0.95 else nested(rng)
    else:
        value = mutate_bytes(b'{"ts": 1, "flow": 2.5, "name": "x"}', rng)
    if rng.random() < 0.03:
        value = None
    key = rng.choice([None, b"", b"pump-1", b"\xff", b"a\x00\n", b"\xed\xa0\x80", rng.choice(TOKENS)])
    headers = rng.choice(HEADERS) if rng.random() < 0.5 else ()
    return Input(value, key, headers, place=rng.choice([EVENTS, DEAD_LETTERS]))


def _as_message(each: Input) -> Message:
    headers: tuple[tuple[str, bytes], ...] = each.headers  # type: ignore[assignment]  # Kafka's may be null
    return Message(each.place or EVENTS, each.key, each.value, headers)


def _edit(line: bytes, rng: Random, pool: Sequence[Input]) -> bytes:
    """As a text editor, a disk or another program may leave it."""
    if pool and rng.random() < 0.2:
        return mutate_bytes(rng.choice(pool).value or b"", rng, line)
    if rng.random() < 0.6:
        try:
            node = parsed(orjson.loads(line))
        except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
            return mutate_bytes(line, rng)
        for _ in range(rng.choice([1, 1, 2])):
            node = mutate_document(node, rng, _NAMES)
        return write(node)
    if rng.random() < 0.2:
        return line.replace(b'"data":', b'"data_base64":"' + base64.b64encode(line)[:-1] + b'","data":', 1)
    return mutate_bytes(line, rng)
