"""Builds frozen dataclasses out of untrusted mappings: unknown keys refused, every problem names its key. Pure."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from anchormoe.errors import DataError

T = TypeVar("T")


def build(kind: type[T], given: Any, where: str) -> T:
    """An instance of the dataclass `kind`; `where` is the key's path, for messages. Raises DataError."""
    if not isinstance(given, Mapping):
        raise DataError(f"{where}: expected keys and values, not {given!r}")
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]  # T is always a dataclass
    for key in given:
        if key not in known:
            raise DataError(f"{where}.{key}: unknown key; known are {', '.join(known)}")
    types = get_type_hints(kind)
    absent = [name for name, field in known.items() if name not in given and _is_required(field)]
    if absent:
        raise DataError(f"{where}.{absent[0]}: required key is missing")
    values = {key: _value(types[key], value, f"{where}.{key}") for key, value in given.items()}
    try:
        return kind(**values)
    except ValueError as error:
        raise DataError(f"{where}: {error}") from error


def _is_required(field: "Field[Any]") -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _value(kind: Any, given: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return None if given is None and NoneType in arguments else _value(arguments[0], given, where)
    if origin is Literal:
        return _one_of(arguments, given, where)
    if origin is tuple:
        return _items(arguments[0], given, where)
    if origin is dict:
        return _entries(arguments[1], given, where)
    if is_dataclass(kind):
        return build(kind, {} if given is None else given, where)  # type: ignore[arg-type]  # a dataclass type, never an instance
    return _scalar(kind, given, where)


def _one_of(choices: tuple[Any, ...], given: Any, where: str) -> Any:
    if given not in choices:
        raise DataError(f"{where}: {given!r} is not one of {', '.join(map(str, choices))}")
    return given


def _items(kind: Any, given: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(given, list | tuple):
        raise DataError(f"{where}: expected a list, not {given!r}")
    return tuple(_value(kind, item, f"{where}[{at}]") for at, item in enumerate(given))


def _entries(kind: Any, given: Any, where: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise DataError(f"{where}: expected keys and values, not {given!r}")
    return {str(key): _value(kind, value, f"{where}.{key}") for key, value in given.items()}


def _scalar(kind: Any, given: Any, where: str) -> Any:
    if kind is float and isinstance(given, int) and not isinstance(given, bool):
        return float(given)
    if not isinstance(given, kind) or (kind is not bool and isinstance(given, bool)):
        raise DataError(f"{where}: expected {kind.__name__}, not {given!r}")
    return given
