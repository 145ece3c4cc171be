"""A published event as the page holds it: packed, because a page holds two hundred thousand of them. Pure."""

import sys
import zlib
from typing import Any

import orjson

from agent.page.api import EventHead

_LEVEL, _BITS = 6, -15
"""Of zlib; without its header and its sum, ten bytes of each event."""
_TEXT = b'"text":%s,'
_WORTH_BYTES = 512
_OVERHEAD_BYTES = 450
"""Of one event beside its bytes and its sentence: the object, its entries in the indices, the run of its state.
Measured, rounded up."""
_WORDS = (
    b'"readings","partition":0,"offset":1},"notice":"Decision support only: not a medical device."}'
    b'"model":{"name":"pump","version":"1","digest":"0123456789abcdef"},"input":{"topic":"sensors",'
    b'"implausible":[{"channel":"","finding":"frozen","start":"","end":"","masked":true}],"beyond_training":[]'
    b'"window":{"start":"2026-11-18T10:00:00.8Z","end":"2026-11-18T10:00:12.8Z","coverage":1.0,"missing_channels":[],'
    b'"unsettled":null,"previous_state":null,"abstention":null,"other_classes":null,"why_not":{"class":"normal",'
    b'"margin":1.0,"unit":"bar","mean":1.0,"min":0.0,"max":2.0,"deviation":0.1,"normal":{"mean":1.0,"low":0.5,"high":1.5,'
    b'"direction":"within","since":null},{"name":"","other_channels":0.0,"experts":[{"name":"","contribution":0.1,'
    b'"weight":null,"reliability":null},"remainder":0.1,"channels":[{"name":"'
    b'{"asset":"pump-1","group":"pumps","type":"state","kind":"process","state":"normal","text":"varies by against '
    b'above since at least UTC; speaks for `normal` (> 99 %), runner-up (< 1 %)","classes":[{"class":"normal",'
    b'"probability":0.99,"logit":4.5},{"class":"","evidence":{"class":"normal","context":0.1,"spans":[{"start":"2026-'
    b'","end":"2026-11-18T10:00:00.8Z","channels":["flow"],"contribution":0.5,"share":0.1,"expert":"long shape, in "}'
)
"""What most events have in common. Only this program reads what it packed, so it may change."""
_EVIDENCE = b'"evidence":{'
_MAX_EXAMPLES, _MAX_EXAMPLE_BYTES = 256, 16_384


class Examples:
    """The first event of each group and state: the next ones repeat its channels, units, experts and model.

    They take a third less memory than beside `_WORDS` alone.
    """

    def __init__(self) -> None:
        self._words: dict[tuple[Any, ...], bytes] = {}

    def __len__(self) -> int:
        return len(self._words)

    def words(self, event: "StoredEvent", raw: bytes) -> bytes:
        kind = (event.group, event.type, event.state, _EVIDENCE in raw)
        found = self._words.get(kind)
        if found is None and len(self._words) < _MAX_EXAMPLES:
            found = self._words[kind] = _WORDS + raw[:_MAX_EXAMPLE_BYTES]
        return _WORDS if found is None else found


class StoredEvent:
    """`raw` is the data as published; it and `head` are made when they are asked for. `serial` is the history's."""

    __slots__ = (
        "_packed",
        "_text",
        "_words",
        "asset",
        "group",
        "id",
        "p",
        "previous",
        "problem",
        "readable",
        "serial",
        "state",
        "time_ms",
        "type",
        "version",
    )

    def __init__(self, head: EventHead, raw: bytes, *, readable: bool = True, problem: str = "") -> None:
        self.id, self.time_ms = head.id, head.time_ms
        self.asset, self.group, self.type = sys.intern(head.asset), sys.intern(head.group), sys.intern(head.type)
        self.state = None if head.state is None else sys.intern(head.state)
        self.previous = None if head.previous is None else sys.intern(head.previous)
        self.p, self.version, self.readable, self.problem = head.p, head.version, readable, problem
        self.serial = 0
        self._text = None if head.text and _TEXT % orjson.dumps(head.text) in raw else head.text
        self._packed, self._words = raw, b""

    def pack(self, examples: Examples) -> None:
        """Once, by the history that keeps it."""
        if len(self._packed) < _WORTH_BYTES:
            return
        self._words = examples.words(self, self._packed)
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _BITS, zdict=self._words)
        self._packed = packer.compress(self._packed) + packer.flush()

    @property
    def raw(self) -> bytes:
        if not self._words:
            return self._packed
        return zlib.decompressobj(_BITS, zdict=self._words).decompress(self._packed)

    @property
    def text(self) -> str:
        """Where the event has its sentence itself, it is not held twice."""
        return str(orjson.loads(self.raw)["text"]) if self._text is None else self._text

    @property
    def head(self) -> EventHead:
        return EventHead.model_construct(
            id=self.id,
            time_ms=self.time_ms,
            asset=self.asset,
            group=self.group,
            type=self.type,
            state=self.state,
            previous=self.previous,
            p=self.p,
            text=self.text,
            version=self.version,
        )

    @property
    def cost(self) -> int:
        """Bytes of memory."""
        return len(self._packed) + len(self._text or "") + _OVERHEAD_BYTES
