"""The consoles whose partition is here: takes inputs in order and says what to publish and which rows to write.

Between an input's step and the next one nothing may be lost: the caller publishes, then writes, then goes on.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog

from agent.alarms.core.catalogue import Catalogue
from agent.alarms.core.console import Console, Memory, StepResult
from agent.alarms.core.inputs import decode_input
from agent.alarms.core.step import step
from agent.alarms.core.transitions import AuditEntry, Transition, transition_id
from agent.alarms.messages import messages_of
from agent.alarms.worker.recovery import Restored, Row, restored, rows_of
from connectors.errors import RecordError
from connectors.records import Message

log = structlog.get_logger()
Rows = Callable[[], Iterable[tuple[bytes, bytes]]]


@dataclass(slots=True)
class AppliedInput:
    """What one input asks for: first the messages, then the rows, in this order."""

    messages: list[Message] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)


class ConsoleWorker:
    """`rows` gives all rows of the table as they are now; consoles are rebuilt from them after a rebalance."""

    def __init__(self, catalogue: Catalogue, rows: Rows) -> None:
        self._catalogue, self._rows = catalogue, rows
        self._consoles: dict[str, Restored] = {}
        self.ignored: Counter[str] = Counter()

    @property
    def consoles(self) -> list[Console]:
        return [kept.console for kept in self._consoles.values()]

    def forget(self) -> None:
        """Partitions come and go: what is remembered may have moved on elsewhere."""
        self._consoles.clear()

    def take(self, key: bytes | None, value: bytes | None, offset: int, written_ns: int) -> AppliedInput:
        """`written_ns`: the record's own timestamp, for what cannot be read."""
        name = (key or b"").decode(errors="replace")
        if name not in self._catalogue.console_names():
            return self._unusable(name, offset, written_ns, RecordError("unknown_console", f"no console {name!r}"))
        console, last = self._consoles.get(name) or restored(name, self._rows())
        if offset <= last:
            self._consoles[name] = Restored(console, last)
            return AppliedInput()
        try:
            entry = decode_input(value)
        except RecordError as error:
            return self._unusable(name, offset, written_ns, error)
        outcome = step(console, self._catalogue, entry)
        work = self._work(console, outcome, offset)
        console.apply(outcome)
        self._consoles[name] = Restored(console, offset)
        self._count(outcome)
        return work

    def _work(self, console: Console, outcome: StepResult, offset: int) -> AppliedInput:
        messages = list(messages_of(console.name, self._catalogue, outcome))
        return AppliedInput(messages, list(rows_of(console, outcome, offset)), outcome.transitions)

    def _unusable(self, console: str, offset: int, written_ns: int, error: RecordError) -> AppliedInput:
        """Explained in the audit: whoever sent it can find out why nothing happened."""
        self.ignored[error.reason] += 1
        log.warning("input ignored", console=console, offset=offset, reason=error.detail)
        name = transition_id(console, str(offset), "refused", "input")
        entry = AuditEntry(name, console, "", "input", "", "", written_ns, "refused", error.detail, f"offset {offset}")
        return AppliedInput(list(messages_of(console, self._catalogue, StepResult(Memory(), audit=[entry]))))

    def _count(self, outcome: StepResult) -> None:
        self.ignored.update(outcome.ignored)
        if outcome.ignored:
            log.debug("input ignored", reasons=dict(outcome.ignored))
