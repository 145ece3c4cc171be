"""The doors for what was stored: checkpoints, commit metadata, activations and dead letters that come back damaged."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import orjson

from agent.dead_letters.stored import LetterPosition, ReasonCount, ReplayFilter, StoredDeadLetter, replay_record
from agent.models.activations import Activation, decode_activation, encode_activation, positions_in_force, timeline
from agent.runtime.pipeline import Endpoints, Pipeline, PipelineLimits
from agent.terminal.dead_letters import counts_json, counts_text, letter_json, letter_lines, letters_text
from connectors.base import Claim, StoredWindows
from connectors.decoding import Decoder
from connectors.errors import RecordError
from connectors.memory import MemoryLog, MemorySink, MemorySource, MemoryWindowStore
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import Position
from tests.fuzz.cases import Headers, Input, Outcome, shape
from tests.fuzz.mutation import NAMES, TOKENS, mutate_bytes, mutate_document, nested, parsed, write
from tests.support.plant import A, pumps, put

HEADER, RING, METADATA, ACTIVATION, LETTER = "header", "ring", "metadata", "activation", "dead-letter"
_LIMITS = PipelineLimits(poll_timeout_s=0.001, checkpoint_every_s=1e9, checkpoint_records=1 << 60)
_LAYOUT = GroupLayout("pumps", (ChannelField("flow", "flow"), ChannelField("pressure", "pressure")), ("*",))
_METADATA = (
    "", "rebuild=", "rebuild=-1", "rebuild=\u00b2", "rebuild=1e5", "rebuild=9" + "9" * 400, "rebuild=\u0661",
    "rebuild= 1",
    "rebuild=5;layouts=", "rebuild=5;layouts=:", "rebuild=5;layouts=x:y,x:1", "rebuild=5;;;", "rebuild=5;first=\ud7ff",
    "{}", "\x00", "consumer-group-tool", "rebuild=5;layouts=" + "a:1," * 500, "rebuild=5;topic=x;last=y;crc=z",
)  # fmt: skip
_DL = ("dl_reason", "dl_detail", "dl_field", "dl_exception", "dl_topic", "dl_partition", "dl_offset",
       "dl_timestamp_ms", "dl_version", "dl_replayed", "dl_size", "dl_sha256", "dl_pointer")  # fmt: skip
_TEXTS = (b"late", b"not_json", b"readings", b"0", b"-1", b"9" * 30, b"9" * 5000, b"\xff", b"\x1b[2J", b"\xc2\xb2", b"")
_GOOD = b'{"ts": 1731744000000, "flow": 1.5}'
_BREAKS = str.maketrans("", "", "\n")


@dataclass(frozen=True, slots=True)
class StoredDoor:
    name: str = "stored-data"
    variants: Sequence[str] = (HEADER, RING, METADATA, ACTIVATION, LETTER)
    batch: int = 50
    renew_after: int = 2_000

    def open(self, variant: str) -> "WindowSession | ActivationSession | LetterSession":
        match variant:
            case "activation":
                return ActivationSession()
            case "dead-letter":
                return LetterSession()
            case _:
                return WindowSession(variant)


class _DamagedStore(MemoryWindowStore):
    """Gives back something else than was stored."""

    header: bytes | None = None
    ring: bytes | None = None

    async def load(self, claim: Claim, layout: str) -> StoredWindows | None:
        stored = await super().load(claim, layout)
        if stored is not None and self.header is not None:
            stored = replace(stored, header=self.header)
        if stored is not None and self.ring is not None:
            first, *_ = stored.rings
            stored = replace(stored, rings={**stored.rings, first: self.ring})
        return stored


class WindowSession:
    """A successor takes a partition over and finds the damage; it must go on, by a rebuild if need be."""

    def __init__(self, variant: str) -> None:
        self._variant, self._runner = variant, asyncio.Runner()
        self._log, self._store = MemoryLog([A]), _DamagedStore()
        for second in range(100, 140):
            for asset in ("p1", "p2"):
                put(self._log, asset, second, 1.0)
        self._runner.run(self._run(to_the_end=True))
        self._committed = self._log.commits.get(A) or Position(0)
        stored = self._runner.run(self._stored())
        self._header, self._ring = stored.header, next(iter(stored.rings.values()))

    def generate(self, rng: Random, count: int, pool: Sequence[Input]) -> list[Input]:
        return [Input(self._damage(rng)) for _ in range(count)]

    def feed(self, inputs: Sequence[Input]) -> Outcome:
        outcome = Outcome()
        for each in inputs:
            value = each.value or b""
            self._store.header = value if self._variant == HEADER else None
            self._store.ring = value if self._variant == RING else None
            metadata = value.decode(errors="replace") if self._variant == METADATA else self._committed.metadata
            self._log.commits.put({A: Position(self._committed.offset, metadata)})
            self._runner.run(self._run(to_the_end=False))
            outcome.used += 1
        return outcome

    def close(self) -> None:
        self._runner.close()

    async def _run(self, *, to_the_end: bool) -> None:
        pipeline = Pipeline(
            Endpoints(MemorySource(self._log), self._store, MemorySink(limit=10)),
            Decoder([_LAYOUT], RecordFormat(time_unit="s", max_clock_skew_ns=None)),
            {"pumps": pumps()},
            _LIMITS,
            clock=lambda: 0.0,
        )
        try:
            await pipeline.start()
            await pipeline.step()
            if to_the_end:
                await pipeline.checkpoint()
        finally:
            await pipeline.close()

    async def _stored(self) -> StoredWindows:
        from agent.windows.snapshot import layout_digest

        stored = await self._store.load(await self._store.claim(A), layout_digest(pumps().spec))
        assert stored is not None
        return stored

    def _damage(self, rng: Random) -> bytes:
        if self._variant == RING:
            return mutate_bytes(self._ring, rng)
        if self._variant == METADATA:
            text = self._committed.metadata.encode()
            return rng.choice(_METADATA).encode() if rng.random() < 0.5 else mutate_bytes(text, rng)
        if rng.random() < 0.3:
            return mutate_bytes(self._header, rng)
        node = parsed(orjson.loads(self._header))
        for _ in range(rng.choice([1, 1, 2])):
            node = mutate_document(node, rng)
        return write(node)


class ActivationSession:
    """The compacted topic of activations, which anybody with access may write."""

    def generate(self, rng: Random, count: int, pool: Sequence[Input]) -> list[Input]:
        good = encode_activation(Activation("pumps", 1_731_744_000_000_000_000, "d" * 64, "pump", "ada", 1, "why"))
        inputs = []
        for _ in range(count):
            node = parsed(orjson.loads(good))
            for _ in range(rng.choice([0, 1, 1, 2])):
                node = mutate_document(node, rng, (*NAMES, b'"effective_ns"', b'"bundle"', b'"digest"', b'"group"'))
            value = nested(rng) if rng.random() < 0.01 else write(node)
            inputs.append(Input(mutate_bytes(value, rng) if rng.random() < 0.3 else value))
        return inputs

    def feed(self, inputs: Sequence[Input]) -> Outcome:
        outcome, read = Outcome(), list[Activation]()
        for index, each in enumerate(inputs):
            try:
                read.append(decode_activation(each.value))
                outcome.used += 1
            except RecordError as error:
                outcome.refused[error.reason] += 1
                outcome.traits.append((index, shape(error.detail)))
        for group in {activation.group for activation in read}:
            line = timeline(read, group)
            positions_in_force([each.effective_ns for each in line], np.array([0, 1 << 62]))
        for activation in read:
            decode_activation(encode_activation(activation))
        return outcome

    def close(self) -> None:
        """Nothing is open."""


class LetterSession:
    """Letters in the topic of dead letters, which may come from other programs: listed, shown, replayed."""

    def __init__(self) -> None:
        self._decoder = Decoder([_LAYOUT], RecordFormat())

    def generate(self, rng: Random, count: int, pool: Sequence[Input]) -> list[Input]:
        keys = [None, b"p1", b"p1", b"\xff\x1b"]
        return [Input(rng.choice([_GOOD, *TOKENS]), rng.choice(keys), _headers(rng)) for _ in range(count)]

    def feed(self, inputs: Sequence[Input]) -> Outcome:
        outcome, counts = Outcome(), dict[str, ReasonCount]()
        for index, each in enumerate(inputs):
            headers: tuple[tuple[str, bytes], ...] = each.headers  # type: ignore[assignment]  # Kafka's may be null
            letter = StoredDeadLetter.of(LetterPosition(0, index), each.key, each.value, headers)
            counts.setdefault(letter.reason, ReasonCount()).add(letter)
            orjson.dumps(letter_json(letter))
            answer = replay_record(letter, self._decoder, ReplayFilter(["readings"], force=True))
            text = "\n".join([letters_text([letter]), *letter_lines(letter), answer if isinstance(answer, str) else ""])
            if not text.translate(_BREAKS).isprintable():
                outcome.violate("unescaped", "a letter's text has characters that a terminal obeys", index)
            if isinstance(answer, str):
                outcome.refused["skipped"] += 1
                outcome.traits.append((index, shape(answer)))
            else:
                outcome.used += 1
        orjson.dumps(counts_json(counts))
        if not counts_text(counts).translate(_BREAKS).isprintable():
            outcome.violate("unescaped", "the counts' text has characters that a terminal obeys", *range(len(inputs)))
        return outcome

    def close(self) -> None:
        """Nothing is open."""


def _headers(rng: Random) -> Headers:
    good = {
        "dl_reason": b"not_json",
        "dl_topic": b"readings",
        "dl_partition": b"0",
        "dl_offset": b"7",
        "dl_detail": b"x",
    }
    headers: dict[str, bytes | None] = {**good, "dl_timestamp_ms": b"1731744000000"}
    for _ in range(rng.choice([0, 1, 2, 4])):
        headers[rng.choice(_DL)] = rng.choice([*_TEXTS, None, *TOKENS])
    if rng.random() < 0.3:
        headers[rng.choice(["x", "", "\x1b[31m", "dl_", "dl_\u202e"])] = rng.choice(TOKENS)
    return tuple(headers.items())
