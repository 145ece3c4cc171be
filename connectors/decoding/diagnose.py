"""Reading a JSON record by hand, slowly, to say exactly what is wrong with it. Pure."""

import re
from collections.abc import Iterable
from typing import Any

import orjson

from connectors.errors import RecordError

_NOT_A_NUMBER = re.compile(rb"\b(NaN|Infinity|nan|inf)\b")

Document = dict[str, Any]


def parse(value: bytes) -> Document:
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        hint = "; JSON has no NaN or Infinity, a missing value is null" if _NOT_A_NUMBER.search(value) else ""
        raise RecordError("not_json", f"{error}{hint}") from error
    return as_object(document, None)


def as_object(document: Any, field: str | None) -> Document:
    if not isinstance(document, dict):
        what = "the record" if field is None else field
        raise RecordError("wrong_type", f"{what} must be an object, not {type(document).__name__}", field=field)
    return document


def take(document: Document, field: str) -> Any:
    try:
        return document[field]
    except KeyError:
        raise RecordError("missing_field", f"{field} is missing", field=field) from None


def text(document: Document, field: str) -> str:
    value = take(document, field)
    if not isinstance(value, str):
        raise RecordError("wrong_type", f"{field} must be a text, not {type(value).__name__}", field=field)
    if not value:
        raise RecordError("missing_field", f"{field} is empty", field=field)
    return value


def check_number(value: Any, field: str) -> None:
    """Null stands for missing."""
    if value is not None and type(value) not in (int, float):
        raise RecordError("wrong_type", f"{field} must be a number or null, not {type(value).__name__}", field=field)


def check_known(names: Iterable[str], known: frozenset[str]) -> None:
    for name in names:
        if name not in known:
            raise RecordError("unknown_channel", f"{name} is not a channel of this group", field=name)


def check_count(count: int, limit: int) -> None:
    if count > limit:
        raise RecordError("too_many_channels", f"{count} channels; the limit is {limit}")
