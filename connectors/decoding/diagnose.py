"""Reads a JSON record slowly, to say exactly what is wrong with it. Pure."""

import re
from collections.abc import Collection, Iterable
from typing import Any

import orjson

from connectors.errors import RecordError, list_names, shorten

_NOT_A_NUMBER = re.compile(rb"\b(NaN|Infinity|nan|inf)\b")
_JSON_TYPES = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}

Document = dict[str, Any]


def parse(value: bytes) -> Document:
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise RecordError("not_json", f"not JSON: {error}{_not_json_hint(value)}") from error
    return as_object(document, None)


def _not_json_hint(value: bytes) -> str:
    if value.startswith(b"AMC1"):
        return "; it looks like a binary chunk, for which records.format is binary"
    if _NOT_A_NUMBER.search(value):
        return "; JSON has no NaN or Infinity, write null for a missing value"
    return f"; it begins with {shorten(value[:24])}"


def as_object(document: Any, field: str | None) -> Document:
    if not isinstance(document, dict):
        what = "the record" if field is None else field
        raise RecordError("wrong_type", f"{what} must be a JSON object, not {describe(document)}", field=field)
    return document


def get(document: Document, field: str) -> Any:
    try:
        return document[field]
    except KeyError:
        seen = list_names(document) or "no field"
        raise RecordError("missing_field", f"{field} is missing; the record has {seen}", field=field) from None


def get_string(document: Document, field: str) -> str:
    value = get(document, field)
    if not isinstance(value, str):
        raise RecordError("wrong_type", f"{field} must be a string, not {describe(value)}", field=field)
    if not value:
        raise RecordError("missing_field", f"{field} is empty", field=field)
    return value


def check_number(value: Any, field: str) -> None:
    """Null stands for missing."""
    if value is not None and type(value) not in (int, float):
        hint = "; arrays need records.format: chunked" if isinstance(value, list) else ""
        detail = f"{field} must be a number or null, not {describe(value)}{hint}"
        raise RecordError("wrong_type", detail, field=field)


def check_known(names: Iterable[str], known: Collection[str], group: str) -> None:
    for name in names:
        if name not in known:
            raise unknown_channel(name, known, group)


def unknown_channel(name: str, known: Iterable[str], group: str) -> RecordError:
    detail = f"{shorten(name)} is not a channel of group {group}, which reads {list_names(known)}"
    return RecordError("unknown_channel", detail, field=name)


def no_known_channel(names: Iterable[str], known: Iterable[str], group: str, *, field: str | None) -> RecordError:
    seen = list_names(names) or "none at all"
    detail = f"no channel of group {group}, which reads {list_names(known)}; the record has {seen}"
    return RecordError("empty", detail, field=field)


def check_count(count: int, limit: int) -> None:
    if count > limit:
        raise RecordError("too_many_channels", f"{count} channels; records.max_channels is {limit}")


def describe(value: Any) -> str:
    """A value in JSON's words, cut to a bounded length."""
    if value is None:
        return "null"
    name = _JSON_TYPES.get(type(value), type(value).__name__)
    if isinstance(value, dict | list):
        return f"an {name}"
    return f"the {name} {str(value).lower() if isinstance(value, bool) else shorten(value)}"
