"""Converts JSON or YAML values that are not trusted into typed ones; msgspec checks types and bounds. Pure.

Unknown keys and numbers that are not finite are refused. A message names the key, what was expected and what was found.
"""

import math
import unicodedata
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, inspect

from anchormoe.errors import DataError, ModelError

Count = Annotated[int, Meta(ge=1)]
Size = Annotated[int, Meta(ge=1, le=1 << 20)]
"""Of an array's axis in a stored model: a damaged file cannot ask for all of the memory."""
Amount = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
MAX_NAME = 500
Text = Annotated[str, Meta(max_length=MAX_NAME)]

T = TypeVar("T")
_SHOWN_CHARACTERS = 60
_NOT_IN_NAMES = frozenset({"Cc", "Cs", "Zl", "Zp"})
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def is_plain_text(text: str) -> bool:
    """Without control characters, line separators and marks that turn the direction: names go to terminals and logs."""
    return not any(unicodedata.category(each) in _NOT_IN_NAMES or each in _DIRECTIONS for each in text)


def from_settings(kind: type[T], value: Any, where: str) -> T:
    """A person's choices: keys that are absent take their defaults. `where` is the file and the key. DataError."""
    converted: T = _SETTINGS.convert(kind, value, where)
    return converted


def from_stored(kind: type[T], value: Any, where: str) -> T:
    """What a program wrote: every key must be there. Raises ModelError."""
    converted: T = _STORED.convert(kind, value, where)
    return converted


def require_valid_fields(value: Any, *, error: type[Exception] = DataError) -> None:
    """Checks the fields of a dataclass against its annotations, for its `__post_init__`."""
    converter = _Converter(error, complete=True)
    for name, kind in _types(type(value)).items():
        converter.convert(kind, getattr(value, name), name)


def override(settings: T, changes: Mapping[str, Any], where: str) -> T:
    """Settings with single fields changed; a field that holds several values keeps them. Raises DataError."""
    types = {name: kind for name, kind in _types(type(settings)).items() if not _is_container(kind)}
    for name, value in changes.items():
        if name not in types:
            raise DataError(f"{where}.{name}: no such setting; there are {', '.join(types)}")
        default = getattr(settings, name)
        try:
            _SETTINGS.convert(types[name], value, f"{where}.{name}")
        except DataError as error:
            given = "chosen by rule" if default is None else repr(default)
            raise DataError(f"{error}; the default is {given}") from None
    return replace(settings, **dict(changes))  # type: ignore[type-var]  # T is always a dataclass


@dataclass(frozen=True, slots=True)
class _Converter:
    """`complete` refuses a missing key even where the dataclass has a default."""

    error: type[Exception]
    complete: bool

    def convert(self, kind: Any, value: Any, where: str) -> Any:
        origin, arguments = get_origin(kind), get_args(kind)
        if is_dataclass(kind):
            return self._dataclass(kind, value, where)
        if origin in (Union, UnionType):
            inner = next(one for one in arguments if one is not NoneType)
            whole = value is None or not _is_container(inner)
            return self._scalar(kind, value, where) if whole else self.convert(inner, value, where)
        if origin is tuple:
            return self._items(arguments[0], value, where)
        if origin in (dict, Mapping):
            return self._entries(arguments, value, where)
        return self._scalar(kind, value, where)

    def _dataclass(self, kind: Any, value: Any, where: str) -> Any:
        if isinstance(value, kind):
            return value
        if value is None and not self.complete:
            value = {}  # an empty section of a YAML file
        self._require_mapping(value, where)
        types = _types(kind)
        unknown = [str(key) for key in value if key not in types]
        if unknown:
            raise self.error(f"{_join(where, ', '.join(unknown))}: unknown key; known are {', '.join(types)}")
        missing = [name for name in (types if self.complete else _required(kind)) if name not in value]
        if missing:
            raise self.error(f"{_join(where, missing[0])}: required key is missing")
        values = {key: self.convert(types[key], one, _join(where, key)) for key, one in value.items()}
        try:
            return kind(**values)
        except ValueError as error:
            raise self.error(f"{where.rstrip(':')}: {error}" if where else str(error)) from error

    def _items(self, kind: Any, value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise self.error(f"{where}: expected a list, not {_shown(value)}")
        return tuple(self.convert(kind, item, f"{where}[{at}]") for at, item in enumerate(value))

    def _entries(self, kinds: tuple[Any, ...], value: Any, where: str) -> dict[str, Any]:
        """Keys become strings first: YAML reads `0: normal` with a number."""
        self._require_mapping(value, where)
        return {
            self._scalar(kinds[0], str(key), _join(where, key)): self.convert(kinds[1], one, _join(where, key))
            for key, one in value.items()
        }

    def _scalar(self, kind: Any, value: Any, where: str) -> Any:
        if kind is Any:
            return value
        try:
            converted = msgspec.convert(value, kind, strict=True)
        except msgspec.ValidationError:
            raise self.error(f"{where}: expected {_expected(kind)}, not {_shown(value)}") from None
        if isinstance(converted, float) and not math.isfinite(converted):
            raise self.error(f"{where}: expected {_expected(kind)}, not {_shown(value)}")
        return converted

    def _require_mapping(self, value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            raise self.error(f"{where}: expected keys and values, not {_shown(value)}")


_SETTINGS = _Converter(DataError, complete=False)
_STORED = _Converter(ModelError, complete=True)


def _types(kind: Any) -> dict[str, Any]:
    """Of the fields of a dataclass, by name."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}


def _required(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING)


def _is_container(kind: Any) -> bool:
    return is_dataclass(kind) or get_origin(kind) in (tuple, dict, Mapping)


def _join(where: str, key: object) -> str:
    """`where` is empty, ends with a file's colon, or is a key itself."""
    return f"{where}{'' if not where else ' ' if where.endswith(':') else '.'}{key}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _expected(kind: Any) -> str:
    """In words, with bounds: a whole number from 1 to 10, a string of at most 500 characters, one of a, b."""
    if get_origin(kind) in (Union, UnionType):
        return " or ".join("null" if one is NoneType else _expected(one) for one in get_args(kind))
    info = inspect.type_info(kind)
    if isinstance(info, inspect.LiteralType):
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if isinstance(info, inspect.IntType | inspect.FloatType):
        return ("a whole number" if isinstance(info, inspect.IntType) else "a number") + _bounds(info)
    if isinstance(info, inspect.StrType):
        return "a string" + ("" if info.max_length is None else f" of at most {info.max_length} characters")
    return "true or false" if isinstance(info, inspect.BoolType) else str(kind)


def _bounds(info: inspect.IntType | inspect.FloatType) -> str:
    if info.ge is not None and info.le is not None:
        return f" from {info.ge} to {info.le}"
    bounds = {"of at least": info.ge, "above": info.gt, "of at most": info.le, "below": info.lt}
    words = [f"{word} {bound}" for word, bound in bounds.items() if bound is not None]
    return f" {' and '.join(words)}" if words else ""
