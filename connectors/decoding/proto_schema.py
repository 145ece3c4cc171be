"""Reads the text of a .proto file as far as flat messages need it; says why where it cannot. Pure.

A registry gives Protobuf schemas as text. A compiler would bring a native library; what is needed is names, numbers and
types of scalar fields.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from connectors.errors import RecordError, list_names, shorten

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_WIRE = {
    "double": 1, "fixed64": 1, "sfixed64": 1, "float": 5, "fixed32": 5, "sfixed32": 5,
    "int32": 0, "int64": 0, "uint32": 0, "uint64": 0, "sint32": 0, "sint64": 0, "bool": 0,
    "string": 2, "bytes": 2,
}  # fmt: skip
NUMBERS = frozenset(_WIRE) - {"bool", "string", "bytes"}
MAX_TOKENS, MAX_DEPTH, MAX_FIELDS = 50_000, 32, 4_096
_MAX_PARSED = 64
_LABELS = ("optional", "required", "repeated")
_TOKEN = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/|(?P<word>[A-Za-z_.][A-Za-z0-9_.]*)|(?P<number>[+-]?[0-9][0-9A-Za-z_.+-]*)"
    r"|(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|(?P<sign>[{}\[\]()<>;,=:-])",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ProtoField:
    """`explicit`: where it is absent, it is missing; else it is 0, which encoders of proto3 leave out."""

    name: str
    number: int
    kind: str
    repeated: bool = False
    explicit: bool = False

    @property
    def wire(self) -> int:
        """Of enums it is that of an integer, of everything that is not a scalar that of bytes."""
        return _WIRE.get(self.kind, BYTES)


@dataclass(slots=True)
class Message:
    """`enums` and nested messages by their short names, in the order of the file."""

    name: str
    fields: list[ProtoField] = field(default_factory=list)
    messages: "list[Message]" = field(default_factory=list)
    enums: set[str] = field(default_factory=set)


def find_message(text: str, indexes: Sequence[int]) -> tuple[ProtoField, ...]:
    """The fields of the message that a path of indexes names; those of enum type are int32.

    Raises `RecordError` (`schema_mismatch`).
    """
    top = _parse(text)
    if isinstance(top, str):
        raise _mismatch(top)
    enums, message = set(top.enums), top
    for index in indexes:
        if not 0 <= index < len(message.messages):
            raise _mismatch(f"there is no message {'.'.join(map(str, indexes))} in it")
        message = message.messages[index]
        enums |= message.enums
    return tuple(
        replace(each, kind="int32") if each.kind.rpartition(".")[2] in enums else each for each in message.fields
    )


@lru_cache(maxsize=_MAX_PARSED)
def _parse(text: str) -> Message | str:
    """The file, or why it cannot be read. Remembered, since every record may name another message of it."""
    try:
        return _Parser(text).parse()
    except RecordError as error:
        return error.detail


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._implicit = _is_proto3(self._tokens)

    def parse(self) -> Message:
        top = Message("")
        while self._at < len(self._tokens):
            word = self._next()
            if word == "message":
                top.messages.append(self._message(0))
            elif word == "enum":
                top.enums.add(self._enum())
            elif word in ("service", "extend"):
                self._skip_to("{")
                self._skip_block()
            elif word != ";":
                self._skip_statement()
        if not top.messages:
            raise _mismatch("no message is in it")
        return top

    def _message(self, depth: int) -> Message:
        if depth > MAX_DEPTH:
            raise _mismatch(f"messages are nested more than {MAX_DEPTH} deep")
        message = Message(self._next())
        self._expect("{")
        self._body(message, depth)
        numbers = [each.number for each in message.fields]
        if len(set(numbers)) != len(numbers):
            raise _mismatch(f"message {shorten(message.name)} has a field number twice")
        return message

    def _body(self, message: Message, depth: int, *, one_of: bool = False) -> None:
        while (word := self._next()) != "}":
            if word == "message":
                message.messages.append(self._message(depth + 1))
            elif word == "enum":
                message.enums.add(self._enum())
            elif word == "oneof":
                self._next()
                self._expect("{")
                self._body(message, depth + 1, one_of=True)
            elif word in ("option", "reserved", "extensions"):
                self._skip_statement()
            elif word in ("extend", "group"):
                self._skip_to("{")
                self._skip_block()
            elif word != ";":
                message.fields.append(self._field(word, explicit=one_of or not self._implicit))
                if len(message.fields) > MAX_FIELDS:
                    raise _mismatch(f"more than {MAX_FIELDS} fields")

    def _field(self, word: str, *, explicit: bool) -> ProtoField:
        repeated, explicit = word == "repeated", explicit or word == "optional"
        if word in _LABELS:
            word = self._next()
        if word == "group":
            raise _mismatch("groups cannot be read")
        if word == "map":
            self._skip_to(">")
            repeated = True
        name = self._next()
        self._expect("=")
        number = self._number(name)
        if self._peek() == "[":
            self._next()
            self._skip_block("[", "]")
        self._expect(";")
        return ProtoField(name, number, word, repeated, explicit)

    def _number(self, name: str) -> int:
        text = self._next()
        try:
            number = int(text, 0)
        except ValueError:
            number = 0
        if not 0 < number < 1 << 29:
            raise _mismatch(f"field {shorten(name)} has the number {shorten(text)}")
        return number

    def _enum(self) -> str:
        name = self._next()
        self._expect("{")
        self._skip_block()
        return name

    def _skip_statement(self) -> None:
        """To its semicolon, over blocks in braces."""
        while (word := self._next()) != ";":
            if word == "{":
                self._skip_block()

    def _skip_block(self, opens: str = "{", ends: str = "}") -> None:
        depth = 1
        while depth:
            word = self._next()
            depth += (word == opens) - (word == ends)

    def _skip_to(self, end: str) -> None:
        while self._next() != end:
            pass

    def _expect(self, wanted: str) -> None:
        if (found := self._next()) != wanted:
            raise _mismatch(f"expected {wanted!r}, found {shorten(found)}")

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise _mismatch("it ends in the middle")
        self._at += 1
        return self._tokens[self._at - 1]


def _is_proto3(tokens: Sequence[str]) -> bool:
    return tokens[:3] in (["syntax", "=", '"proto3"'], ["syntax", "=", "'proto3'"])


def _tokens(text: str) -> Iterator[str]:
    at, count = 0, 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _mismatch(f"it is no .proto text at {shorten(text[at : at + 20])}")
        at = found.end()
        if found.lastgroup is not None:
            count += 1
            if count > MAX_TOKENS:
                raise _mismatch(f"more than {MAX_TOKENS} words")
            yield found[0]


def names_of(fields: Sequence[ProtoField]) -> str:
    return list_names(each.name for each in fields)


def _mismatch(detail: str) -> RecordError:
    return RecordError("schema_mismatch", detail)
