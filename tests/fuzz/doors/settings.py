"""The door for settings: a plant's YAML, changed in its structure or its bytes, is answered with problems."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import yaml

from agent.errors import SettingsError
from agent.settings import examine
from agent.web.users import parse_users
from tests.fuzz.cases import Input, Outcome, shape
from tests.fuzz.mutation import Node, mutate_bytes, mutate_document, parsed, write

CONFIGS = Path(__file__).parents[3] / "configs"
USERS = "users"
"""not a plant: the file with the users of the HTTP servers"""
_USERS = b"users:\n- name: ada\n  role: engineer\n  token_sha256: " + b"0" * 64 + b"\n"
_EXAMPLES = ("alarms", "demo", "file-replay", "kafka", "secured")
_TAGS = (
    b"!!python/object/apply:os.system [id]", b"&a [*a]", b"*nowhere", b"!!binary x", b"!!set {a}", b"!!omap [a: 1]",
    b"1:30:00", b"2024-11-16", b"0o17", b"0b1", b"1_000", b".inf", b".nan", b"~", b"? a\n: b", b"<<: {a: 1}",
    b"|\n  x", b">-\n  x", b"\t- x", b"--- \n", b"...\n", b"%YAML 9.9\n---\n", b"{a: [}", b"[" * 200, b"- " * 200,
    b"&b {x: [1, 1, 1, 1]}", b"'\\x1b'", b'"\\e[2J"', b'"\\ud800"', b"!!timestamp 2024-13-99", b"0x" + b"f" * 300,
    b"9" * 5000, b"1e999", b"-.inf", b"1s", b"-1s", b"1e400s", b"999999999999d", b"1MiB", b"9" * 30 + b"GiB",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SettingsDoor:
    name: str = "settings"
    variants: Sequence[str] = (*_EXAMPLES, USERS)
    batch: int = 20
    renew_after: int = 1 << 60

    def open(self, variant: str) -> "SettingsSession":
        return SettingsSession(variant)


class SettingsSession:
    def __init__(self, variant: str) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="fuzz-settings-")
        directory = Path(self._place.name)
        for name in ("bundles", "recordings", "datasets"):
            (directory / name).symlink_to(CONFIGS / name)
        self._path = directory / "plant.yaml"
        self._variant = variant
        self._text = _USERS if variant == USERS else (CONFIGS / f"{variant}.yaml").read_bytes()
        self._names = _names(yaml.safe_load(self._text))

    def generate(self, rng: Random, count: int, pool: Sequence[Input]) -> list[Input]:
        return [Input(self._changed(rng, pool)) for _ in range(count)]

    def feed(self, inputs: Sequence[Input]) -> Outcome:
        outcome = Outcome()
        for index, each in enumerate(inputs):
            self._path.write_bytes(each.value or b"")
            try:
                problems, loaded = self._examine(each.value or b"")
            except SettingsError as error:
                problems, loaded = list(error.problems), False
            json.dumps(problems, ensure_ascii=False).encode("utf-8", "surrogatepass")
            outcome.traits += [(index, shape(problem)) for problem in problems]
            if loaded:
                outcome.used += 1
            elif problems:
                outcome.refused["SettingsError"] += 1
            else:
                outcome.violate("silent", "neither settings nor a problem", index)
            if any(not problem.translate(_BREAKS).isprintable() for problem in problems):
                outcome.violate("unescaped", "a problem has characters that a terminal obeys", index)
        return outcome

    def close(self) -> None:
        self._place.cleanup()

    def _examine(self, content: bytes) -> tuple[list[str], bool]:
        if self._variant == USERS:
            parse_users(content, "users.yaml")
            return [], True
        examination = examine(self._path, {})
        return [problem.message for problem in examination.problems], examination.loaded is not None

    def _changed(self, rng: Random, pool: Sequence[Input]) -> bytes:
        kind = rng.random()
        if pool and kind < 0.1:
            return mutate_bytes(rng.choice(pool).value or b"", rng, self._text)
        if kind < 0.6:  # JSON is YAML too
            node: Node = parsed(json.loads(json.dumps(yaml.safe_load(self._text), default=str)))
            for _ in range(rng.choice([1, 1, 2, 3])):
                node = mutate_document(node, rng, self._names)
            return write(node)
        if kind < 0.85:  # a value in its line
            lines = self._text.split(b"\n")
            at = rng.randrange(len(lines))
            head, colon, _ = lines[at].partition(b": ")
            lines[at] = head + (colon or b": ") + rng.choice(_TAGS)
            return b"\n".join(lines)
        return mutate_bytes(self._text, rng)


_BREAKS = str.maketrans("", "", "\n")


def _names(document: object) -> tuple[bytes, ...]:
    """Every name that occurs, so that it turns up in other places."""
    if isinstance(document, dict):
        own = [json.dumps(str(name)).encode() for name in document]
        return tuple(dict.fromkeys([*own, *(name for inner in document.values() for name in _names(inner))]))
    if isinstance(document, list):
        return tuple(dict.fromkeys(name for inner in document for name in _names(inner)))
    return ()
