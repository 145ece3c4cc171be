"""Mutates bytes and JSON documents; the same generator state gives the same bytes. Pure.

A document is written from raw tokens, so that it can hold what no encoder writes: two equal names, `1e999`, bytes that
are not UTF-8. An object is a list of pairs, an array a tuple, everything else is the token itself.
"""

from collections.abc import Callable, Sequence
from random import Random

import orjson

Node = bytes | tuple["Node", ...] | list[tuple[bytes, "Node"]]
"""a token, an array, an object (with its names as tokens)"""

NUMBERS = (
    b"0", b"-0", b"-0.0", b"1", b"-1", b"0.1", b"1e999", b"-1e999", b"1e-999", b"1E+308", b"1.7976931348623157e308",
    b"3.4028235e38", b"3.4028236e38", b"-3.5e38", b"1e-45", b"5e-324", b"9007199254740993", b"2147483648",
    b"4294967296", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"-9223372036854775809",
    b"18446744073709551615", b"18446744073709551616", b"9" * 400, b"-" + b"9" * 4000, b"0." + b"3" * 400, b"1e+00009",
    b"4096", b"100000", b"10000000", b"1000000000",
    b"01", b"+1", b".5", b"5.", b"1e", b"0x10", b"1_000", b"NaN", b"-NaN", b"Infinity", b"-Infinity", b"nan", b"inf",
    b"\xd9\xa1\xd9\xa2", b"1,5", b"4611686018427387904", b"4611686018427387903", b"1731744000000.0000001",
)  # fmt: skip
TEXTS = (
    b'""', b'"\xff"', b'"M\xfcller"', b'"\\ud800"', b'"\\udfff\\ud800"', b'"\\u0000"', b'"\x00"', b'"\xed\xa0\x80"',
    b'"\xc0\xaf"', b'"\xf4\x90\x80\x80"', b'"\xe2\x80\xae"', b'"\\x41"', b'"\\', b'"open', b'"\x1b[2J\x1b]0;own\x07"',
    b'"\\u001b[31m"', b'"a\r\nb"', b'"a\\r\\nb"', b'"[/red]"', b'"[bold]x"', b'"1.5"', b'"NaN"', b'"pump-1"',
    b'"\xef\xbb\xbf"', b'"' + b"x" * 300 + b'"', b'"' + b"\xc3\xa9" * 3000 + b'"', b'"<script>"', b'"{0.__class__}"',
    b'"%n%s"', b'"\xe2\x80\xa8"', b"'single'", b'"../../etc/passwd"',
)  # fmt: skip
TIMES = (
    b'"2024-11-16T09:00:00.000"', b'"2024-11-16T09:00:00Z"', b'"2024-11-16T09:00:00+14:00"', b'"20241116T090000Z"',
    b'"2024-11-16"', b'"2024-02-30T00:00:00Z"', b'"2024-12-31T23:59:60Z"', b'"2024-11-16T24:00:00Z"',
    b'"0001-01-01T00:00:00Z"', b'"9999-12-31T23:59:59Z"', b'"0001-01-01T00:00:00+23:59"',
    b'"9999-12-31T23:59:59-23:59"',
    b'"2024-W46-6T09:00:00Z"', b'"2024-11-16t09:00:00z"', b'"2024-11-16T09:00:00.1234567891234Z"',
    b'"2024-11-16T09:00:00,5Z"', b'" 2024-11-16T09:00:00Z "', b'"2262-04-12T00:00:00Z"', b'"1969-12-31T23:59:59Z"',
    b'"\xef\xbc\x92024-11-16T09:00:00Z"', b'"2024-11-16T09:00:00+99:00"', b'"2024-11-16T09:00:00 +01"',
    b'"2116-02-20T23:53:38Z"', b'"-2024-11-16T09:00:00Z"', b'"1731744000000"',
)  # fmt: skip
WORDS = (b"null", b"true", b"false", b"{}", b"[]", b"None", b"undefined", b"", b'{"a":1}', b"[1]", b"[null]", b"[[]]")
TOKENS = NUMBERS + TEXTS + TIMES + WORDS
NAMES = (
    b'"ts"', b'"flow"', b'"pressure"', b'"values"', b'"asset"', b'"tag"', b'"value"', b'"start"', b'"period_ms"',
    b'"time"', b'"channel"', b'"operator"', b'""', b'"f0"', b'"Flow"', b'"fl\\u006fw"', b'"flow "', b'"\xff"',
    b'"\\ud800"', b'"\x1b[2J"', b'"a\\nb"', b'"[/x]"', b'"' + b"n" * 400 + b'"', b'"' + b"\xf0\x9f\x94\xa5" * 64 + b'"',
    b'"__proto__"', b"flow", b"1", b"null",
)  # fmt: skip
SNIPPETS = (
    b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\r\n", b"\n", b"\x1b[31m", b"\xed\xa0\x80", b"\\u", b"\\ud800",
    b"{", b"}", b"[", b"]", b'"', b",", b":", b"{}", b"AMC1", b"//x\n", b"/**/", b"\x0c", b"\x85", b"\xe2\x80\xae",
    b",,", b"::", b'"":', b"\x7f", b"\x80", b"\xc2",
)  # fmt: skip
_DEPTHS = (2, 20, 128, 500, 1000, 1023, 1024, 1025, 2000)
_HUGE_DEPTHS = (5_000, 20_000, 100_000)
_INTERESTING = (0, 1, 2, 4, 5, 127, 128, 254, 255)


def write(node: Node) -> bytes:
    if isinstance(node, bytes):
        return node
    if isinstance(node, tuple):
        return b"[" + b",".join([write(inner) for inner in node]) + b"]"
    return b"{" + b",".join([name + b":" + write(inner) for name, inner in node]) + b"}"


def parsed(document: object) -> Node:
    """A document that was read by a JSON parser, as tokens."""
    if isinstance(document, dict):
        return [(orjson.dumps(str(name)), parsed(inner)) for name, inner in document.items()]
    if isinstance(document, list):
        return tuple(parsed(inner) for inner in document)
    return orjson.dumps(document)


def nested(rng: Random) -> bytes:
    """Mostly about as deep as parsers allow, seldom much deeper."""
    depth = rng.choice(_HUGE_DEPTHS if rng.random() < 0.02 else _DEPTHS)
    opened, closed = rng.choice([(b"[", b"]"), (b'{"a":', b"}"), (b"[[],", b"]")])
    return opened * depth + rng.choice([b"1", b"", b"null"]) + closed * (depth - (rng.random() < 0.1))


def token(rng: Random) -> bytes:
    return nested(rng) if rng.random() < 0.01 else rng.choice(TOKENS)


def mutate_document(node: Node, rng: Random, names: Sequence[bytes] = NAMES) -> Node:
    """One change somewhere in the document."""
    if isinstance(node, bytes):
        return token(rng)
    if isinstance(node, tuple):
        return _mutate_array(node, rng, names)
    return _mutate_object(node, rng, names)


def _mutate_array(node: tuple[Node, ...], rng: Random, names: Sequence[bytes]) -> Node:
    if not node:
        return (token(rng),)
    at, kind = rng.randrange(len(node)), rng.random()
    if kind < 0.6:
        return (*node[:at], mutate_document(node[at], rng, names), *node[at + 1 :])
    if kind < 0.7:
        return (*node[:at], *node[at + 1 :])
    if kind < 0.8:
        return (*node[:at], node[at], *node[at:])
    if kind < 0.85:
        return node * rng.choice([2, 3, 40])
    return token(rng)


def _mutate_object(node: list[tuple[bytes, Node]], rng: Random, names: Sequence[bytes]) -> Node:
    kind = rng.random()
    if kind < 0.03:
        return token(rng)
    if not node or kind < 0.2:  # a further name, known or not
        at = rng.randint(0, len(node))
        return [*node[:at], (rng.choice(names), token(rng)), *node[at:]]
    at = rng.randrange(len(node))
    name, inner = node[at]
    if kind < 0.7:
        return [*node[:at], (name, mutate_document(inner, rng, names)), *node[at + 1 :]]
    if kind < 0.8:
        return [*node[:at], (rng.choice(names), inner), *node[at + 1 :]]
    if kind < 0.87:
        return [*node[:at], *node[at + 1 :]]
    if kind < 0.93:  # the same name twice
        return [*node, (name, inner if rng.random() < 0.5 else token(rng))]
    if kind < 0.97:
        return [*node[at:], *node[:at]]
    count = rng.choice([7, 9, 300])
    return [*node, *((b'"c%d"' % number, b"1") for number in range(count))]


def mutate_bytes(data: bytes, rng: Random, other: bytes = b"") -> bytes:
    """One change of the bytes; `other` is what a splice takes its end from."""
    return rng.choice(_BYTE_MUTATIONS)(data, rng, other)


def _flip_bit(data: bytes, rng: Random, _: bytes) -> bytes:
    if not data:
        return b"\x00"
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _set_byte(data: bytes, rng: Random, _: bytes) -> bytes:
    if not data:
        return b"\xff"
    at = rng.randrange(len(data))
    return data[:at] + bytes([rng.choice(_INTERESTING)]) + data[at + 1 :]


def _insert(data: bytes, rng: Random, _: bytes) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice(SNIPPETS) + data[at:]


def _insert_token(data: bytes, rng: Random, _: bytes) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice(TOKENS) + data[at:]


def _put_token(data: bytes, rng: Random, _: bytes) -> bytes:
    """Over the bytes that are there."""
    at, put = rng.randint(0, len(data)), rng.choice(TOKENS)
    return data[:at] + put + data[at + len(put) :]


def _truncate(data: bytes, rng: Random, _: bytes) -> bytes:
    return data[: rng.randint(0, len(data))]


def _behead(data: bytes, rng: Random, _: bytes) -> bytes:
    return data[rng.randint(0, len(data)) :]


def _delete(data: bytes, rng: Random, _: bytes) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + data[at + rng.randint(1, 8) :]


def _duplicate(data: bytes, rng: Random, _: bytes) -> bytes:
    low = rng.randint(0, len(data))
    high = min(len(data), low + rng.randint(1, 40))
    return data[:high] + data[low:high] * rng.choice([1, 2, 30]) + data[high:]


def _splice(data: bytes, rng: Random, other: bytes) -> bytes:
    return data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]


def _swap(data: bytes, rng: Random, _: bytes) -> bytes:
    low, high = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
    return data[high:] + data[low:high] + data[:low]


def _mark_order(data: bytes, rng: Random, _: bytes) -> bytes:
    """A byte order mark, or the text in another encoding."""
    if rng.random() < 0.5:
        return b"\xef\xbb\xbf" + data
    return data.decode(errors="replace").encode(rng.choice(["utf-16", "utf-16-be", "utf-32", "utf-8-sig"]), "replace")


def _crlf(data: bytes, rng: Random, _: bytes) -> bytes:
    return data.replace(b",", rng.choice([b",\r\n", b",\r", b",\x0b", b", \t"])) + rng.choice([b"\r\n", b"\n\n", b""])


_BYTE_MUTATIONS: tuple[Callable[[bytes, Random, bytes], bytes], ...] = (
    _flip_bit, _flip_bit, _set_byte, _insert, _insert, _insert_token, _insert_token, _put_token, _truncate, _behead,
    _delete, _duplicate, _splice, _swap, _mark_order, _crlf,
)  # fmt: skip
