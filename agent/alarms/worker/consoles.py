"""The consoles of this worker's partitions: applies inputs in order, gives the messages to publish and rows to write.

The caller publishes the messages, then writes the rows, then takes the next input.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog

from agent.alarms.core.catalogue import Catalogue
from agent.alarms.core.console import Console, ConsoleState, StepResult
from agent.alarms.core.inputs import decode_input
from agent.alarms.core.step import step
from agent.alarms.core.transitions import AuditEntry, Transition, transition_id
from agent.alarms.messages import step_messages
from agent.alarms.worker.recovery import RestoredConsole, Row, restore_console, step_rows
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
    """`rows` gives all rows of the table; consoles are restored from them at the start and after a rebalance."""

    def __init__(self, catalogue: Catalogue, rows: Rows) -> None:
        self._catalogue, self._rows = catalogue, rows
        self._consoles: dict[str, RestoredConsole] = {}
        self.ignored: Counter[str] = Counter()

    @property
    def consoles(self) -> list[Console]:
        return [restored.console for restored in self._consoles.values()]

    def forget(self) -> None:
        """After a rebalance another worker may have changed the consoles: restore them from the table again."""
        self._consoles.clear()

    def take(self, key: bytes | None, value: bytes | None, offset: int, written_ns: int) -> AppliedInput:
        """`written_ns`: the record's own timestamp, for inputs that cannot be decoded."""
        name = (key or b"").decode(errors="replace")
        if name not in self._catalogue.console_names():
            return self._refuse(name, offset, written_ns, RecordError("unknown_console", f"no console {name!r}"))
        console, last = self._consoles.get(name) or restore_console(name, self._rows())
        if offset <= last:
            self._consoles[name] = RestoredConsole(console, last)
            return AppliedInput()
        try:
            entry = decode_input(value)
        except RecordError as error:
            return self._refuse(name, offset, written_ns, error)
        result = step(console, self._catalogue, entry)
        messages = list(step_messages(console.name, self._catalogue, result))
        rows = list(step_rows(console, result, offset))
        console.apply(result)
        self._consoles[name] = RestoredConsole(console, offset)
        self._count(result)
        return AppliedInput(messages, rows, result.transitions)

    def _refuse(self, console: str, offset: int, written_ns: int, error: RecordError) -> AppliedInput:
        """The audit says why, so that the sender can find out why nothing happened."""
        self.ignored[error.reason] += 1
        log.warning("input ignored", console=console, offset=offset, reason=error.detail)
        name = transition_id(console, str(offset), "refused", "input")
        entry = AuditEntry(name, console, "", "input", "", "", written_ns, "refused", error.detail, f"offset {offset}")
        result = StepResult(ConsoleState(), audit=[entry])
        return AppliedInput(list(step_messages(console, self._catalogue, result)))

    def _count(self, result: StepResult) -> None:
        self.ignored.update(result.ignored)
        if result.ignored:
            log.debug("input ignored", reasons=dict(result.ignored))
