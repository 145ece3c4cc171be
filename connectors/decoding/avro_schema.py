"""Compiles an Avro writer schema into the steps that read a record field by field; says why where it cannot. Pure."""

from dataclasses import dataclass
from typing import Any, Literal

import orjson

from connectors.decoding.avro_nested import Node, NodeKind
from connectors.errors import RecordError, list_names, shorten

StepKind = Literal["null", "boolean", "int", "long", "float", "double", "string", "bytes", "fixed", "enum", "nested"]
MAX_STEPS = 4_096
"""Fields of a record with those of the records inside it; a schema may name one record many times."""
_MAX_DEPTH = 32
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "string", "bytes"})
_COMPLEX = frozenset({"record", "enum", "fixed", "array", "map"})
_NODES: dict[str, tuple[NodeKind, int]] = {
    "null": ("null", 0), "boolean": ("fixed", 1), "int": ("varint", 0), "long": ("varint", 0), "float": ("fixed", 4),
    "double": ("fixed", 8), "string": ("text", 0), "bytes": ("text", 0), "enum": ("varint", 0),
}  # fmt: skip
_ARTICLES = {"record": "a record", "array": "an array", "map": "a map"}
_TIME_UNITS = {
    "timestamp-millis": "ms", "timestamp-micros": "us", "timestamp-nanos": "ns",
    "local-timestamp-millis": "ms", "local-timestamp-micros": "us", "local-timestamp-nanos": "ns",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One field in the order of the bytes. `null_branch` is the index of null in a union of two, None without one.

    `size` is that of a `fixed`, or the number of symbols of an `enum`. `unit` is the time unit of a logical type.
    `nested` is what a value without a fixed place consists of, and `what` how to call it.
    """

    path: tuple[str, ...]
    kind: StepKind
    null_branch: int | None = None
    size: int = 0
    unit: str | None = None
    nested: Node | None = None
    what: str = ""

    @property
    def described(self) -> str:
        return self.what or f"a {self.kind}"

    @property
    def is_number(self) -> bool:
        return self.kind in ("int", "long", "float", "double") and self.unit is None

    @property
    def name(self) -> str:
        return ".".join(self.path)


def compile_schema(text: str) -> tuple[Step, ...]:
    """The steps of a record: a field that is primitive, enum, fixed, or a union of one of them with null; those of a
    record inside; and one step for anything else (arrays, maps, wider unions, records that may be null).

    Raises `RecordError` (`schema_mismatch`).
    """
    try:
        schema = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _mismatch(f"the schema is not JSON: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise _mismatch(f"a record is needed, not {shorten(_type_name(schema))}")
    steps: list[Step] = []
    _Compiler(steps).add_record(schema, (), "", 0)
    return tuple(steps)


class _Compiler:
    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self._named: dict[str, dict[str, Any]] = {}
        self._nodes: dict[str, Node] = {}
        self._open: set[str] = set()
        self._fields = 0

    def add_record(self, schema: dict[str, Any], path: tuple[str, ...], namespace: str, depth: int) -> None:
        full, namespace = self._define(schema, namespace)
        if full in self._open or depth > _MAX_DEPTH:
            raise _mismatch(f"record {shorten(full)} contains itself")
        self._open.add(full)
        for field in _fields_of(schema, full):
            self._add(field["type"], (*path, field["name"]), namespace, depth + 1)
        self._open.remove(full)

    def _add(self, schema: Any, path: tuple[str, ...], namespace: str, depth: int) -> None:
        self._count()  # also of records without fields: they may be named many times
        whole, null_branch = schema, None
        if isinstance(schema, list):
            null_branch, schema = _nullable(schema)
        if null_branch is None and isinstance(whole, list):
            self._add_nested(whole, path, namespace, f"a union of {_list_branches(whole)}, not of null and one other")
            return
        kind, found, inner = self._look_up(schema, namespace)
        if kind == "record" and null_branch is None:
            self.add_record(found, path, inner, depth)
        elif kind in ("record", "array", "map"):
            self._add_nested(
                whole, path, namespace, f"{_ARTICLES[kind]}{' that may be null' * (null_branch is not None)}"
            )
        elif kind in _PRIMITIVES or kind in _COMPLEX:
            unit = _TIME_UNITS.get(str(found.get("logicalType"))) if kind == "long" else None
            self._steps.append(Step(path, kind, null_branch, self._size(kind, found, path, inner), unit))
        else:
            raise _mismatch(f"field {_shown(path)} is a {shorten(kind)}, which Avro does not know")

    def _add_nested(self, schema: Any, path: tuple[str, ...], namespace: str, what: str) -> None:
        self._steps.append(Step(path, "nested", nested=self._node(schema, path, namespace, 0), what=what))

    def _node(self, schema: Any, path: tuple[str, ...], namespace: str, depth: int) -> Node:
        """Of a type without a fixed place. A record is looked at once, also where it is part of itself."""
        self._count()
        if depth > _MAX_DEPTH:
            raise _mismatch(f"field {_shown(path)} is nested more than {_MAX_DEPTH} deep")
        if isinstance(schema, list):
            return Node("union", parts=[self._node(branch, path, namespace, depth + 1) for branch in schema])
        kind, found, namespace = self._look_up(schema, namespace)
        if kind == "record":
            return self._record_node(found, path, namespace, depth)
        if kind in ("array", "map"):
            items = found.get("items" if kind == "array" else "values")
            key = [Node("text")] if kind == "map" else []
            return Node("blocks", parts=[*key, self._node(items, path, namespace, depth + 1)])
        if kind == "fixed":
            return Node("fixed", self._size(kind, found, path, namespace))
        if kind not in _NODES:
            raise _mismatch(f"field {_shown(path)} has a {shorten(kind)}, which Avro does not know")
        self._size(kind, found, path, namespace)  # an enum has a name that may come again
        return Node(*_NODES[kind])

    def _record_node(self, schema: dict[str, Any], path: tuple[str, ...], namespace: str, depth: int) -> Node:
        full, namespace = self._define(schema, namespace)
        if full not in self._nodes:
            node = self._nodes[full] = Node("record")
            node.parts += [self._node(each["type"], path, namespace, depth + 1) for each in _fields_of(schema, full)]
        return self._nodes[full]

    def _count(self) -> None:
        self._fields += 1
        if self._fields > MAX_STEPS:
            raise _mismatch(f"more than {MAX_STEPS} fields")

    def _size(self, kind: str, schema: dict[str, Any], path: tuple[str, ...], namespace: str) -> int:
        if kind == "fixed":
            size = schema.get("size")
            self._define(schema, namespace)
            if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 31:
                return size
            raise _mismatch(f"field {_shown(path)} is fixed without a size")
        if kind == "enum":
            symbols = schema.get("symbols")
            self._define(schema, namespace)
            if isinstance(symbols, list) and symbols:
                return len(symbols)
            raise _mismatch(f"field {_shown(path)} is an enum without symbols")
        return 0

    def _define(self, schema: dict[str, Any], namespace: str) -> tuple[str, str]:
        """The full name, and the namespace of the names inside."""
        name, inner = schema.get("name"), schema.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(inner, str):
            raise _mismatch("a named type without a name")
        full = name if "." in name or not inner else f"{inner}.{name}"
        self._named[full] = schema
        return full, full.rpartition(".")[0]

    def _look_up(self, schema: Any, namespace: str) -> tuple[Any, dict[str, Any], str]:
        """Its kind, its definition and the namespace that holds in it."""
        for _ in range(_MAX_DEPTH):
            if isinstance(schema, str):
                if schema in _PRIMITIVES:
                    return schema, {}, namespace
                full = schema if "." in schema or not namespace else f"{namespace}.{schema}"
                found = self._named.get(full) or self._named.get(schema)
                if found is None:
                    raise _mismatch(f"type {shorten(schema)} is not defined; references are not followed")
                return found.get("type"), found, full.rpartition(".")[0]
            if not isinstance(schema, dict):
                break
            inner = schema.get("type")
            if isinstance(inner, str) and (inner in _PRIMITIVES or inner in _COMPLEX):
                return inner, schema, namespace
            schema = inner
        raise _mismatch("a type that is neither a name nor an object")


def _fields_of(schema: dict[str, Any], full: str) -> list[dict[str, Any]]:
    """Raises `RecordError`."""
    fields = schema.get("fields")
    if not isinstance(fields, list):
        raise _mismatch(f"record {shorten(full)} has no list of fields")
    for field in fields:
        if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
            raise _mismatch(f"a field of record {shorten(full)} has no name or no type")
    return fields


def _nullable(union: list[Any]) -> tuple[int | None, Any]:
    """The index of null and the other type; no index where it is another kind of union."""
    branches = [_type_name(branch) for branch in union]
    if not branches:
        raise _mismatch("a union of nothing")
    if len(union) != 2 or "null" not in branches or branches == ["null", "null"]:
        return None, union
    null = branches.index("null")
    return null, union[1 - null]


def _list_branches(union: list[Any]) -> str:
    return list_names([_type_name(branch) for branch in union])


def _type_name(schema: Any) -> str:
    found = schema.get("type") if isinstance(schema, dict) else schema
    return found if isinstance(found, str) else type(found).__name__


def _shown(path: tuple[str, ...]) -> str:
    return list_names([".".join(path)])


def _mismatch(detail: str) -> RecordError:
    return RecordError("schema_mismatch", detail)
