"""Values that name their schema in a registry: a byte and its id in front of the body, or in a header. Pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from connectors.decoding.readings import Rejections
from connectors.errors import RecordError, shorten
from connectors.records import RecordLike

ID_HEADER = "__value_schema_id"
"""Where newer serializers put what others put in front of the value."""
MAGIC_ID, MAGIC_GUID = 0, 1
_PREFIX_BYTES = {MAGIC_ID: 5, MAGIC_GUID: 17}
_LONGEST_HEADER = 256

SchemaId = int | str
"""A number, or the globally unique id of newer registries as text."""


@dataclass(frozen=True, slots=True)
class Schema:
    """As a registry gives it. `kind` is AVRO, PROTOBUF or JSON; `subject` names subject and version, where known."""

    id: SchemaId
    kind: str
    text: str
    subject: str = ""

    def __str__(self) -> str:
        return f"schema {self.id}" + (f" ({self.subject})" if self.subject else "")


class SchemaSource(Protocol):
    """Schemas by id. What `load` was asked for last can be had from `get`, at least until it is called again."""

    async def load(self, ids: Collection[SchemaId]) -> None: ...

    def get(self, id: SchemaId) -> Schema | RecordError:
        """An error stands for an id that the registry does not have, or cannot give."""
        ...

    async def close(self) -> None: ...


class SchemaGroup(NamedTuple):
    """The values of one schema: their indices and their bytes without the prefix."""

    schema: Schema
    rows: list[int]
    bodies: list[bytes]


def framed_value(record: RecordLike) -> bytes | None:
    """The value with the schema's id in front, wherever it was; a header without an id changes nothing."""
    value = record.value
    if value is not None and record.headers:
        for name, content in record.headers:
            if name == ID_HEADER and content and len(content) <= _LONGEST_HEADER and read_prefix(content) is not None:
                return content + value
    return value


def read_prefix(value: bytes) -> tuple[SchemaId, int] | None:
    """The id, and the length of what stands before the body; None where there is none."""
    size = _PREFIX_BYTES.get(value[0]) if value else None
    if size is None or len(value) < size:
        return None
    raw = value[1:size]
    return (int.from_bytes(raw) if size == _PREFIX_BYTES[MAGIC_ID] else str(UUID(bytes=raw))), size


def schema_ids(values: Iterable[bytes | None]) -> set[SchemaId]:
    """Of the values that have one; what is wrong with the others shows when they are decoded."""
    prefixes = {_prefix(value) for value in values if value}
    return {found[0] for prefix in prefixes if (found := read_prefix(prefix)) is not None}


def by_schema(
    values: Sequence[bytes], schemas: SchemaSource, kind: str, rejections: Rejections
) -> Iterator[SchemaGroup]:
    """The values by schema, without those that have none of this kind."""
    rows_of: dict[bytes, list[int]] = {}
    for row, value in enumerate(values):
        rows_of.setdefault(_prefix(value), []).append(row)
    for prefix, rows in rows_of.items():
        try:
            schema = _find(prefix, schemas, kind)
        except RecordError as error:
            rejections.update(dict.fromkeys(rows, error))
            continue
        size = len(prefix)
        yield SchemaGroup(schema, rows, [values[row][size:] for row in rows])


def _prefix(value: bytes) -> bytes:
    return value[:17] if value[:1] == b"\x01" else value[:5]


def _find(prefix: bytes, schemas: SchemaSource, kind: str) -> Schema:
    """Raises `RecordError`."""
    found = read_prefix(prefix)
    if found is None:
        hint = "; it looks like JSON" if prefix[:1] in (b"{", b"[") else ""
        raise RecordError(
            "no_schema_id", f"a zero byte and the id of a schema must come first, not {shorten(prefix)}{hint}"
        )
    schema = schemas.get(found[0])
    if isinstance(schema, RecordError):  # a new one each time: raised again, it would hold on to every batch it met
        raise RecordError(schema.reason, schema.detail, field=schema.field)
    if schema.kind != kind:
        raise RecordError("schema_mismatch", f"{schema} is {shorten(schema.kind)}; records.format needs {kind}")
    return schema
