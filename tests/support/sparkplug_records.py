"""Sparkplug B payloads written by hand, field by field of the specification. Pure."""

from tests.support.proto_records import double, integer, single, text

INT8, INT16, INT32, INT64, UINT32, FLOAT, DOUBLE = 1, 2, 3, 4, 7, 9, 10
T0 = 1_731_744_000_000


def metric(
    name: str = "",
    value: float | None = None,
    *,
    alias: int | None = None,
    at_ms: int | None = None,
    kind: int = DOUBLE,
    null: bool = False,
    typed: bool = True,
) -> bytes:
    """`typed`: with its datatype, which DATA should leave out."""
    body = text(1, name.encode()) if name else b""
    body += b"" if alias is None else integer(2, alias)
    body += b"" if at_ms is None else integer(3, at_ms)
    body += integer(4, kind) if typed else b""
    if null:
        return text(2, body + integer(7, 1))
    if value is None:
        return text(2, body)
    if kind == DOUBLE:
        return text(2, body + double(13, value))
    if kind == FLOAT:
        return text(2, body + single(12, value))
    bits = 64 if kind == INT64 else 32
    return text(2, body + integer(11 if kind == INT64 else 10, int(value) & (1 << bits) - 1))


def payload(*metrics: bytes, at_ms: int | None = T0, seq: int | None = 0) -> bytes:
    head = b"" if at_ms is None else integer(1, at_ms)
    return head + b"".join(metrics) + (b"" if seq is None else integer(3, seq))
