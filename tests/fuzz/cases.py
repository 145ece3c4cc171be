"""What goes through a door and what came of it; failures as files, which the tests replay."""

import base64
import json
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Input:
    """One record, message, file, request or answer. `place` is the partition, the file's name or the route."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int = -1
    place: str = ""


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that did not hold: its kind, what happened, and the numbers of the inputs concerned."""

    kind: str
    detail: str
    inputs: tuple[int, ...] = ()

    @property
    def signature(self) -> str:
        return f"{self.kind}: {shape(self.detail)}"


@dataclass(slots=True)
class Outcome:
    """What became of a batch. Every input is in exactly one of the first four.

    `traits` are what was remarkable about single inputs; an input with a new trait is mutated further.
    """

    used: int = 0
    ignored: int = 0
    control: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    traits: list[tuple[int, Hashable]] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        self.used += other.used
        self.ignored += other.ignored
        self.control += other.control
        self.refused.update(other.refused)
        self.violations += other.violations

    def violate(self, kind: str, detail: str, *inputs: int) -> None:
        self.violations.append(Violation(kind, detail, inputs))


class Session(Protocol):
    """A door that has been opened: its state is what the earlier inputs made of it."""

    def generate(self, rng: Random, count: int, pool: Sequence[Input]) -> list[Input]:
        """New inputs; `pool` are earlier ones with new traits."""
        ...

    def feed(self, inputs: Sequence[Input]) -> Outcome:
        """Whatever it raises is a crash."""
        ...

    def close(self) -> None: ...


class Door(Protocol):
    """Where bytes from outside come in. `renew_after`: inputs that one session takes."""

    @property
    def name(self) -> str: ...
    @property
    def variants(self) -> Sequence[str]: ...
    @property
    def batch(self) -> int: ...
    @property
    def renew_after(self) -> int: ...
    def open(self, variant: str) -> Session: ...


_RUN = re.compile(rb"(.)\1{4095,}", re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|\d+|[^\x20-\x7e]+")


def shape(text: str) -> str:
    """A message without the numbers and names in it."""
    return _QUOTED.sub("#", text)[:160]


@dataclass(frozen=True, slots=True)
class Regression:
    """A failure that was found, or a shape that is known to be hard. `finding` says which one."""

    door: str
    variant: str
    finding: str
    inputs: tuple[Input, ...]


def save(regression: Regression, directory: Path, name: str) -> Path:
    """`<door>/<name>.bin` holds the values one after the other, `.json` the rest. Returns the former."""
    place = directory / regression.door
    place.mkdir(parents=True, exist_ok=True)
    facts = {
        "variant": regression.variant,
        "finding": regression.finding,
        "inputs": [_facts(each) for each in regression.inputs],
    }
    (place / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    path = place / f"{name}.bin"
    path.write_bytes(b"".join(_without_run(each.value)[0] for each in regression.inputs))
    return path


def read(path: Path) -> Regression:
    """`path`: the `.json` file."""
    facts, values = json.loads(path.read_text(encoding="utf-8")), path.with_suffix(".bin").read_bytes()
    inputs, at = [], 0
    for each in facts["inputs"]:
        size = each["bytes"]
        inputs.append(_input(each, None if size is None else _with_run(values[at : at + size], each.get("run"))))
        at += size or 0
    return Regression(path.parent.name, facts["variant"], facts["finding"], tuple(inputs))


def regression_files(directory: Path) -> Iterator[Path]:
    yield from sorted(directory.glob("*/*.json"))


def _facts(each: Input) -> dict[str, Any]:
    stored, run = _without_run(each.value)
    facts: dict[str, Any] = {"bytes": None if each.value is None else len(stored)}
    if run is not None:
        facts["run"] = run
    if each.key is not None:
        facts["key"] = _text(each.key)
    if each.headers:
        facts["headers"] = [[name, None if value is None else _text(value)] for name, value in each.headers]
    if each.timestamp != -1:
        facts["timestamp"] = each.timestamp
    if each.place:
        facts["place"] = each.place
    return facts


def _input(facts: dict[str, Any], value: bytes | None) -> Input:
    key = None if facts.get("key") is None else _bytes(facts["key"])
    headers = tuple((name, None if text is None else _bytes(text)) for name, text in facts.get("headers", []))
    return Input(value, key, headers, facts.get("timestamp", -1), facts.get("place", ""))


def _without_run(value: bytes | None) -> tuple[bytes, dict[str, int] | None]:
    """A megabyte of one byte is stored as that byte and how often it is repeated."""
    found = _RUN.search(value or b"")
    if value is None or found is None:
        return value or b"", None
    low, high = found.span()
    return value[: low + 1] + value[high:], {"at": low, "times": high - low}


def _with_run(value: bytes, run: dict[str, int] | None) -> bytes:
    if run is None:
        return value
    at = run["at"]
    return value[:at] + value[at : at + 1] * run["times"] + value[at + 1 :]


def _text(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _bytes(text: str | dict[str, str]) -> bytes:
    return base64.b64decode(text["base64"]) if isinstance(text, dict) else text.encode("utf-8", "surrogatepass")
