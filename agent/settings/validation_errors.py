"""pydantic's errors as problems: the path as in the file, what is wrong, what would be right. Pure."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agent.settings.problems import INVALID, Path, Problem, without_login
from agent.settings.section import Section

_KINDS = {dict: "a mapping", list: "a list", str: "a string", bool: "true or false", type(None): "nothing"}
_SHOWN = 60


def validation_problems(error: ValidationError, tree: type[Section], raw: Any) -> Iterator[Problem]:
    """Every problem that validating `raw` as `tree` found."""
    for detail in error.errors(include_url=False):
        path = _path_in_file(detail["loc"], raw)
        if not _is_consequence(detail):
            yield from _problems(detail, path, section_at(tree, path, raw))


def _path_in_file(loc: Path, raw: Any) -> Path:
    """The location without the tags that pydantic adds for the kinds of a union."""
    path: list[str | int] = []
    for part in loc:
        if isinstance(raw, dict) and part not in raw and raw.get("kind") == part:
            continue
        path.append(part)
        raw = _child(raw, part)
    return tuple(path)


def _child(raw: Any, part: str | int) -> Any:
    if isinstance(raw, dict):
        return raw.get(part)
    inside = isinstance(raw, list) and isinstance(part, int) and part < len(raw)
    return raw[part] if inside else None


def _is_consequence(detail: ErrorDetails) -> bool:
    """A list whose items are all wrong is empty for pydantic; the items have been reported already."""
    given = detail["input"]
    return detail["type"] == "too_short" and isinstance(given, list) and len(given) >= detail["ctx"]["min_length"]


def _problems(detail: ErrorDetails, path: Path, section: type[Section] | None) -> Iterator[Problem]:
    match detail["type"]:
        case _ if detail["type"] == INVALID:
            yield from (problem.below(path) for problem in detail["ctx"]["problems"])
        case "extra_forbidden" | "invalid_key":
            name = str(path[-1])  # YAML has numbers as keys, too
            yield Problem((*path[:-1], name), "unknown setting", _nearest(name, section))
        case "missing":
            yield Problem(path, "missing", _meaning(str(path[-1]), section))
        case "union_tag_not_found":
            yield Problem((*path, "kind"), "missing", "set the kind")
        case "union_tag_invalid":
            ctx = detail["ctx"]
            yield Problem((*path, "kind"), f"unknown kind {ctx['tag']!r}", f"use one of {ctx['expected_tags']}")
        case "too_short":
            least = detail["ctx"]["min_length"]
            yield Problem(path, "too short", f"needs at least {least} item{'s' if least > 1 else ''}")
        case _:
            yield Problem(path, f"{_show(detail['input'])} is not valid", _expected(detail))


def _nearest(name: str, section: type[Section] | None) -> str:
    known = list(section.model_fields) if section else []
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"known settings: {', '.join(known)}"


def _meaning(name: str, section: type[Section] | None) -> str:
    field = section.model_fields.get(name) if section else None
    return f"set it: {field.description}" if field else "set it"


def _show(value: Any) -> str:
    """The value as in YAML; of a structure only its type, of an address no login: secrets are never shown."""
    if isinstance(value, dict | list) or value is None:
        return _KINDS[type(value)]
    text = str(value).lower() if isinstance(value, bool) else without_login(repr(value))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _expected(detail: ErrorDetails) -> str:
    if detail["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return "should be a mapping"
    if detail["type"] in ("tuple_type", "list_type"):
        return "should be a list"
    if detail["type"] == "path_type":
        return "should be a path"
    if detail["type"] == "string_type" and not isinstance(detail["input"], dict | list):
        return "should be a string; put it in quotes"
    return detail["msg"].replace("Input should", "should").replace("String should", "should")


def section_at(tree: type[Section], path: Path, raw: Any) -> type[Section] | None:
    """The section that holds the last part of the path; None when the path leaves the tree."""
    section: type[Section] | None = tree
    for part in path[:-1]:
        raw = _child(raw, part)
        if isinstance(part, str) and section is not None:
            field = section.model_fields.get(part)
            candidates = list(_sections(field.annotation)) if field else []
            section = candidates[0] if candidates else None
        if isinstance(raw, dict) and "kind" in raw and section is not None:
            section = _of_kind(candidates, raw) or section
    return section


def _sections(annotation: Any) -> Iterator[type[Section]]:
    """The sections inside an annotation like `tuple[A | B, ...] | None`."""
    if isinstance(annotation, type) and not get_args(annotation) and issubclass(annotation, Section):
        yield annotation
    for inner in get_args(annotation):
        yield from _sections(inner)


def _of_kind(candidates: list[type[Section]], raw: Mapping[str, Any]) -> type[Section] | None:
    return next((one for one in candidates if "kind" in one.model_fields and raw["kind"] in _tags(one)), None)


def _tags(section: type[Section]) -> tuple[Any, ...]:
    return get_args(section.model_fields["kind"].annotation)
