"""The real pipeline in memory, from polled records to events and dead letters, with every record accounted for."""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
import orjson
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from agent.contracts.received import parse_event
from agent.dead_letters.stored import LetterPosition, StoredDeadLetter
from agent.events.emission import Emission
from agent.events.group import GroupRuntime, Publishing
from agent.events.spans import EvidencePolicy
from agent.models.classifier import ModelName, WindowClassifier
from agent.models.normal_values import NormalValues
from agent.models.schedule import ActiveModel
from agent.runtime.control_records import RESET_HEADER
from agent.runtime.oversized import shrink_message
from agent.runtime.pipeline import Endpoints, Pipeline, PipelineLimits
from agent.terminal.dead_letters import letter_lines, letters_text
from agent.windows.spec import GroupSpec
from anchormoe import Predictor
from anchormoe.windows import FillRule, Grid, WindowShape
from connectors.decoding import Decoded, Decoder
from connectors.decoding.births import BirthTables
from connectors.jsonl import from_line, to_line
from connectors.memory import MemoryLog, MemorySource, MemoryWindowStore
from connectors.records import DEAD_LETTERS, EVENTS, Batch, Message, Partition, Record
from connectors.timestamps import END_NS
from tests.fuzz.cases import Input, Outcome, shape
from tests.fuzz.doors.record_bytes import STEP_MS, A, B
from tests.fuzz.doors.record_variants import Variant
from tests.support.linear_source import STEPS, linear_model

PARTITIONS = {A: Partition("readings", 0), B: Partition("readings", 1)}
MAX_LETTER_BYTES = 1_048_576
"""What a producer with the default `max_request_size` takes."""
_MAX_ROUNDS = 2_000
_AFTER_DECODING = frozenset({"late", "asset_moved", "too_many_assets", "internal"})
_LINE_BREAKS = str.maketrans("", "", "\n")


class World:
    """One agent with two partitions. `feed` returns when everything was published and committed."""

    def __init__(self, variant: Variant, decoder: "AccountingDecoder") -> None:
        self._runner, self._now_s = asyncio.Runner(), 0.0
        self._log, self._sink, self._decoder = MemoryLog(list(PARTITIONS.values())), _Sink(), decoder
        self._ends = dict.fromkeys(PARTITIONS.values(), 0)
        self._fed: Counter[str] = Counter()
        self._model = CheckedModel()
        self._pipeline = self._runner.run(self._start(variant))

    async def _start(self, variant: Variant) -> Pipeline:
        endpoints = Endpoints(MemorySource(self._log), MemoryWindowStore(), self._sink)
        limits = PipelineLimits(poll_timeout_s=0.001, checkpoint_every_s=1e9, checkpoint_records=1 << 60)
        pipeline = Pipeline(
            endpoints,
            self._decoder,
            {"pumps": _group(variant, self._model)},
            limits,
            clock=lambda: self._now_s,
        )
        await pipeline.start()
        return pipeline

    def close(self) -> None:
        try:
            self._runner.run(self._pipeline.close())
        finally:
            self._runner.close()

    def feed(self, inputs: Sequence[Input]) -> Outcome:
        self._now_s += 0.5
        self._decoder.clear()
        self._sink.messages.clear()
        self._model.problems.clear()
        offsets = [self._append(each) for each in inputs]
        finished = self._runner.run(self._to_the_end())
        outcome = _account(inputs, offsets, self._decoder, self._sink.messages)
        if not finished:
            outcome.violate("hang", f"not committed after {_MAX_ROUNDS} steps", *range(len(inputs)))
        for problem in self._model.problems:
            outcome.violate("non_finite", problem, *range(len(inputs)))
        self._compare_counters(outcome, len(inputs))
        for partition in PARTITIONS.values():
            self._log.discard_before(partition, self._ends[partition] - 1)
        return outcome

    def _append(self, each: Input) -> tuple[Partition, int]:
        partition = PARTITIONS[each.place or A]
        headers: Any = each.headers  # Kafka's may be null, whatever the type says
        offset = self._log.append(partition, each.value, key=each.key, timestamp_ms=each.timestamp, headers=headers)
        self._ends[partition] = offset + 1
        return partition, offset

    async def _to_the_end(self) -> bool:
        for _ in range(_MAX_ROUNDS):
            await self._pipeline.step()
            await self._pipeline.checkpoint()
            if all(self._committed(partition) == self._ends[partition] for partition in PARTITIONS.values()):
                return True
        return False

    def _committed(self, partition: Partition) -> int:
        position = self._log.commits.get(partition)
        return 0 if position is None else position.offset

    def _compare_counters(self, outcome: Outcome, records: int) -> None:
        """The counters that people see must say the same."""
        counters = self._pipeline.counters
        self._fed.update(records=records, ignored=outcome.ignored, letters=sum(outcome.refused.values()))
        counted = Counter(
            records=counters.records,
            ignored=counters.ignored["unknown_asset"],
            letters=sum(counters.dead_letters.values()),
        )
        if counted != self._fed and not outcome.violations:
            detail = f"counters say {dict(counted)}, it was {dict(self._fed)}"
            outcome.violate("counters", detail, *range(records))


class _Sink:
    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def start(self) -> None:
        """Nothing to open."""

    async def write(self, messages: Sequence[Message]) -> None:
        """As the Kafka sink does, with what it publishes instead of a message that does not fit."""
        self.messages += [self._fit(message) for message in messages]

    def _fit(self, message: Message) -> Message:
        while message_size(message) > MAX_LETTER_BYTES:
            smaller = shrink_message(message)
            if smaller is None:
                break
            message = smaller
        return message

    async def close(self) -> None:
        """Nothing to close."""


def message_size(message: Message) -> int:
    """As the producer counts it."""
    size: int = DefaultRecordBatchBuilder.estimate_size_in_bytes(message.key, message.value, list(message.headers))
    return size


class CheckedModel:
    """A small real model that looks at what it is given."""

    judge = None

    def __init__(self) -> None:
        config, model = linear_model()
        self._predictor, self.config, self.model = Predictor(config, model), config, model
        self.problems: list[str] = []

    def predict(self, windows: Any, mask: Any) -> Any:
        if not np.isfinite(windows).all():
            self.problems.append("a value in a window is not finite")
        return self._predictor.predict(windows, mask)


def _group(variant: Variant, model: Any) -> GroupRuntime:
    names = tuple(channel.name for channel in variant.layout.channels)
    spec = GroupSpec(
        name="pumps",
        channels=names,
        grid=Grid(STEP_MS * 1_000_000),
        shape=WindowShape(length=STEPS, hop=8, lateness=2),
        idle_after_steps=30,
        rebuild_horizon_steps=4 * STEPS,
        max_assets=4,
        expire_after_steps=300,
    )
    classifier = WindowClassifier(model, model.config.classes, names, (FillRule(), FillRule()), 0.3)
    publishing = Publishing("fuzz", Emission("changes"), EvidencePolicy())
    name = ModelName("linear", "1", "d" * 64)
    return GroupRuntime(spec, ActiveModel(classifier, name, model.config.units, NormalValues.of(model)), publishing)


class AccountingDecoder(Decoder):
    """Remembers what became of each record; a record that is decoded again counts once."""

    def clear(self) -> None:
        self.used: set[tuple[Partition, int]] = set()
        self.rejected: dict[tuple[Partition, int], str] = {}
        self.ignored: set[tuple[Partition, int]] = set()
        self.problems: list[tuple[str, str]] = []

    def decode(self, batch: Batch, births: BirthTables | None = None) -> Decoded:
        decoded = super().decode(batch, births)
        used: set[int] = set()
        for readings in decoded.readings:
            used.update(readings.record.tolist())
            self._check_range(readings.values, readings.time_ns)
        rejected = {each.record: each.reason for each in decoded.rejected}
        if used & rejected.keys():
            self.problems.append(("both", "used and rejected by the decoder"))
        ignored = _others(batch, used, rejected)
        if len(ignored) != decoded.ignored:
            self.problems.append(("silent", f"{len(ignored)} neither used nor rejected, {decoded.ignored} ignored"))
        at = [(batch.partition, record.offset) for record in batch.records]
        self.used.update(at[index] for index in used)
        self.rejected.update((at[index], reason) for index, reason in rejected.items())
        self.ignored.update(at[index] for index in ignored)
        return decoded

    def _check_range(self, values: Any, time_ns: Any) -> None:
        if np.isinf(values).any():
            self.problems.append(("non_finite", "a reading is infinite"))
        if len(time_ns) and (int(time_ns.min()) < 0 or int(time_ns.max()) >= END_NS):
            self.problems.append(("non_finite", "a time is out of range"))


def _others(batch: Batch, used: set[int], rejected: dict[int, str]) -> list[int]:
    return [index for index in range(len(batch.records)) if index not in used and index not in rejected]


def _account(
    inputs: Sequence[Input],
    offsets: Sequence[tuple[Partition, int]],
    decoder: AccountingDecoder,
    messages: Sequence[Message],
) -> Outcome:
    outcome, everything = Outcome(), range(len(inputs))
    for kind, detail in decoder.problems:
        outcome.violate(kind, detail, *everything)
    index_of = {at: index for index, at in enumerate(offsets)}
    letters: dict[int, str] = {}
    for message in messages:
        if message.stream == DEAD_LETTERS:
            _account_letter(message, index_of, letters, outcome)
        elif message.stream == EVENTS:
            _guard(outcome, "event", partial(_check_event, message), *everything)
    for index, at in enumerate(offsets):
        _account_record(index, at, inputs[index], decoder, letters.get(index), outcome)
    return outcome


def _account_record(
    index: int,
    at: tuple[Partition, int],
    given: Input,
    decoder: AccountingDecoder,
    letter: str | None,
    outcome: Outcome,
) -> None:
    if letter is not None:
        outcome.refused[letter] += 1
        if letter == "internal":
            outcome.violate("internal", "caught by the last door", index)
        elif at in decoder.ignored or (at in decoder.used and letter not in _AFTER_DECODING):
            outcome.violate("both", f"dead-lettered as {letter}, and used or ignored", index)
    elif at in decoder.rejected:
        outcome.violate("silent", f"rejected as {decoder.rejected[at]}, without a dead letter", index)
    elif at in decoder.used:
        outcome.used += 1
    elif at in decoder.ignored:
        outcome.ignored += 1
    elif any(name == RESET_HEADER for name, _ in given.headers):
        outcome.control += 1
    else:
        outcome.violate("silent", "neither used, ignored nor dead-lettered", index)


def _account_letter(
    message: Message, index_of: dict[tuple[Partition, int], int], letters: dict[int, str], outcome: Outcome
) -> None:
    letter = StoredDeadLetter.of(LetterPosition(0, 0), message.key, message.value, message.headers)
    index = index_of.get((letter.source, int(letter.dl_headers.get("offset", "-1"))))
    if index is None:
        outcome.violate("both", f"a letter for a record of another batch: {letter.reason}")
        return
    if index in letters:
        outcome.violate("both", f"two letters for one record: {letters[index]} and {letter.reason}", index)
    letters[index] = letter.reason
    outcome.traits.append((index, _trait(letter)))
    size = message_size(message)
    if size > MAX_LETTER_BYTES:
        outcome.violate("letter_size", f"a letter of {size} bytes", index)
    _guard(outcome, "round_trip", lambda: _check_line(message), index)
    _guard(outcome, "unescaped", lambda: _check_text(letter), index)


def _trait(letter: StoredDeadLetter) -> Hashable:
    headers = letter.dl_headers
    return letter.reason, headers.get("exception"), shape(headers.get("detail", ""))


def _guard(outcome: Outcome, kind: str, check: Callable[[], str | None], *inputs: int) -> None:
    """What a check raises is a violation of its kind, not a crash of the pipeline."""
    try:
        problem = check()
    except Exception as error:  # whatever the product raises here
        problem = f"{type(error).__name__}: {error}"
    if problem is not None:
        outcome.violate(kind, problem, *inputs)


def _check_line(message: Message) -> str | None:
    again = from_line(to_line(message))
    return None if again == message else "a dead letter does not come back from JSON lines as it was"


def _check_text(letter: StoredDeadLetter) -> str | None:
    text = letters_text([letter]) + "\n".join(letter_lines(letter))
    if text.isprintable() or text.translate(_LINE_BREAKS).isprintable():
        return None
    return "text for people has characters that a terminal obeys"


def _check_event(message: Message) -> str | None:
    event = parse_event(Record(0, 0, message.key, message.value, message.headers), PARTITIONS[A])
    data = orjson.loads(event.raw)
    if any(value is None for value in (data.get("logits") or {}).values()):
        return "an event has a score that is not a number"
    return None
