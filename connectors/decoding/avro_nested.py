"""Steps over Avro values without a fixed place: arrays, maps, wide unions, records that may be null. Pure.

They hold no channels; where they end is where the next field begins.
"""

from dataclasses import dataclass, field
from typing import Literal

NodeKind = Literal["null", "varint", "fixed", "text", "record", "union", "blocks"]
MAX_EMPTY_VALUES = 10_000
"""Besides one per byte: items of no bytes could otherwise be as many as a number can say."""
_MAX_DEPTH = 32
_VARINT_BYTES = 10


class BadValueError(ValueError):
    """Bytes that do not follow their schema; the text goes on after the field's name."""


@dataclass(slots=True, eq=False)
class Node:
    """One type. `size` is that of a `fixed`. `parts` are fields, branches, or what each item of a block consists of.

    A record may be part of itself.
    """

    kind: NodeKind
    size: int = 0
    parts: "list[Node]" = field(default_factory=list, repr=False)


def length_of(node: Node, body: bytes) -> int:
    """How many bytes the value at the beginning of the body has. Raises `BadValueError`."""
    walk = _Walk(body)
    walk.over(node, 0)
    return walk.at


class _Walk:
    __slots__ = ("_body", "_left", "at")

    def __init__(self, body: bytes) -> None:
        self._body, self._left, self.at = body, MAX_EMPTY_VALUES + len(body), 0

    def over(self, node: Node, depth: int) -> None:
        self._left -= 1
        if self._left < 0:
            raise BadValueError("has more values than bytes")
        if depth > _MAX_DEPTH:
            raise BadValueError(f"is nested more than {_MAX_DEPTH} deep")
        match node.kind:
            case "varint":
                self._varint()
            case "fixed":
                self._advance(node.size)
            case "text":
                self._advance(self._varint())
            case "record":
                for part in node.parts:
                    self.over(part, depth + 1)
            case "union":
                self.over(self._branch(node), depth + 1)
            case "blocks":
                self._blocks(node, depth + 1)

    def _branch(self, node: Node) -> Node:
        branch = self._varint()
        if not 0 <= branch < len(node.parts):
            raise BadValueError("has a branch that its union does not have")
        return node.parts[branch]

    def _blocks(self, node: Node, depth: int) -> None:
        """Until one without items. A negative number of items is followed by the block's size in bytes."""
        while count := self._varint():
            if count < 0:
                self._advance(self._varint())
                continue
            for _ in range(count):
                for part in node.parts:
                    self.over(part, depth)

    def _advance(self, size: int) -> None:
        if size < 0:
            raise BadValueError("has a negative length")
        if size > len(self._body) - self.at:
            raise BadValueError("is cut off")
        self.at += size

    def _varint(self) -> int:
        """Zigzag, at most ten bytes."""
        value = 0
        for number in range(_VARINT_BYTES):
            if self.at >= len(self._body):
                raise BadValueError("is cut off")
            byte = self._body[self.at]
            self.at += 1
            value |= (byte & 0x7F) << 7 * number
            if byte < 0x80:
                if value >> 64:
                    break
                return (value >> 1) ^ -(value & 1)
        raise BadValueError("is an integer of more than 64 bits")
