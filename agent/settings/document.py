"""A YAML file as plain values, with the line and column of every setting."""

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from agent.errors import SettingsError
from agent.settings.problems import Path as FieldPath
from agent.settings.problems import Problem, warning

_MAX_BYTES = 4 * 2**20
_PLACEHOLDER = re.compile(r"\$\{\w[^}]*\}|\{\{.*?\}\}")


@dataclass(frozen=True, slots=True)
class Document:
    """`places` maps the path of a setting to its line and column, counted from 1."""

    path: Path
    content: Any
    places: Mapping[FieldPath, tuple[int, int]]
    duplicates: tuple[Problem, ...] = field(default=())

    def locate(self, problem: Problem) -> Problem:
        """The problem with its place in the file, or that of the nearest setting around it."""
        path = problem.path
        while path and path not in self.places:
            path = path[:-1]
        line, column = self.places.get(path, (0, 0))
        return replace(problem, line=line, column=column)

    def texts(self) -> Iterator[tuple[FieldPath, str]]:
        """Every text with its place; one behind an anchor once."""
        for path in self.places:
            value = _value_at(self.content, path)
            if isinstance(value, str):
                yield path, value


def read_document(path: Path) -> Document:
    """Raises SettingsError with one line: where the YAML is wrong, or why the file cannot be read."""
    text = _read(path)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        raise SettingsError(f"{_place(path, error)}: {_reason(error)}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: must be a mapping of settings; `anchormoe-agent init` writes one to start from")
    return _with_places(path, content, node)


def unreplaced_variables(document: Document) -> Iterator[Problem]:
    """Texts with ${NAME} or {{ name }}, which compose files and templates replace and this file does not."""
    for path, text in document.texts():
        if found := _PLACEHOLDER.search(text):
            right = "write {env: NAME} for a secret; ANCHORMOE_KAFKA_BOOTSTRAP and ANCHORMOE_REDIS_URL set addresses"
            yield warning(path, f"{found[0]} stays as it is: variables in this file are not replaced", right)


def _value_at(value: Any, path: FieldPath) -> Any:
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def _read(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    if len(content) > _MAX_BYTES:
        raise SettingsError(f"{path}: {len(content)} bytes; a configuration has at most {_MAX_BYTES}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 text (byte {error.start})") from error


def _place(path: Path, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)


def _reason(error: yaml.MarkedYAMLError) -> str:
    return "not YAML: " + ", ".join(part for part in (error.problem, error.context) if part)


def _with_places(path: Path, content: Any, node: yaml.Node) -> Document:
    places: dict[FieldPath, tuple[int, int]] = {}
    duplicates = []
    for where, mark in _walk((), node, set()):
        if where in places:
            first = places[where][0]
            duplicates.append(Problem(where, f"duplicate of line {first}", "remove one of the two"))
        places[where] = (mark.line + 1, mark.column + 1)
    return Document(path, content, places, tuple(duplicates))


def _walk(at: FieldPath, node: yaml.Node, seen: set[int]) -> Iterator[tuple[FieldPath, yaml.Mark]]:
    """Every setting with the mark of its key or list item. An anchored node is visited once, so loops end."""
    if id(node) in seen:
        return
    seen.add(id(node))
    for key, mark, value in _children(node):
        yield (*at, key), mark
        yield from _walk((*at, key), value, seen)


def _children(node: yaml.Node) -> Iterator[tuple[Any, yaml.Mark, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name: Hashable = key.value if isinstance(key, yaml.ScalarNode) else repr(key.tag)
            yield name, key.start_mark, value
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            yield at, value.start_mark, value
