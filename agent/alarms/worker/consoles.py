"""The consoles of this worker's partitions: applies inputs in order, gives the messages to publish and rows to write.

The caller publishes the messages, then writes the rows; meanwhile it may take further inputs.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog

from agent.alarms.core.alarm import Alarm
from agent.alarms.core.catalogue import Catalogue
from agent.alarms.core.console import Console, StepResult
from agent.alarms.core.inputs import decode_input
from agent.alarms.core.step import step
from agent.alarms.core.transitions import AuditEntry, Transition, transition_id
from agent.alarms.messages import audit_message, step_messages
from agent.alarms.text import printable
from agent.alarms.worker.recovery import RestoredConsole, Row, restore_console, step_rows
from connectors.errors import ConnectorError, RecordError
from connectors.records import Message
from connectors.timestamps import END_NS

log = structlog.get_logger()
_MAX_FAILURES = 20
"""So many inputs in a row that fail within our own code are our fault, not that of the inputs."""
_MAX_RECORD_BYTES = 950_000
"""Below the broker's default of 1 MB, with room for the record's own headers."""
_LONGEST_REASON, _LONGEST_CONSOLE = 500, 100
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
        self._failures = 0

    @property
    def consoles(self) -> list[Console]:
        return [restored.console for restored in self._consoles.values()]

    def forget(self) -> None:
        """After a rebalance another worker may have changed the consoles: restore them from the table again."""
        self._consoles.clear()

    def alarms(self, console: str) -> list[Alarm]:
        """Of one console of this worker's partitions, as they are after its last input."""
        known = self._consoles.get(console) or restore_console(console, self._rows())
        return list(known.console.alarms.values())

    def take(self, key: bytes | None, value: bytes | None, offset: int, written_ns: int) -> AppliedInput:
        """`written_ns`: the record's own timestamp, for inputs that cannot be decoded.

        Raises ConnectorError if one input after the other fails for a reason that we did not foresee.
        """
        name = (key or b"").decode(errors="replace")
        if name not in self._catalogue.console_names():
            return self._refuse(name, offset, written_ns, RecordError("unknown_console", f"no console {name!r}"))
        console, last = self._consoles.get(name) or restore_console(name, self._rows())
        if offset <= last:
            self._consoles[name] = RestoredConsole(console, last)
            return AppliedInput()
        try:
            result = step(console, self._catalogue, decode_input(value))
            messages = list(step_messages(console.name, self._catalogue, result))
            rows = list(step_rows(console, result, offset))
            _require_fit(messages, rows)
        except RecordError as error:
            return self._refuse(name, offset, written_ns, error)
        except Exception as error:
            self._count_failure(error)
            log.exception("an input failed", console=name, offset=offset)
            return self._refuse(name, offset, written_ns, RecordError("internal", f"failed: {type(error).__name__}"))
        self._failures = 0
        console.apply(result)
        self._consoles[name] = RestoredConsole(console, offset)
        self._count(result)
        return AppliedInput(messages, rows, result.transitions)

    def _refuse(self, console: str, offset: int, written_ns: int, error: RecordError) -> AppliedInput:
        """The audit says why, so that the sender can find out why nothing happened."""
        self.ignored[error.reason] += 1
        shown = printable(console, _LONGEST_CONSOLE)
        log.warning("input ignored", console=shown, offset=offset, reason=printable(error.detail, _LONGEST_REASON))
        entry = refused_input(console, f"offset {offset}", "input", written_ns, error)
        return AppliedInput([audit_message(entry)])

    def _count_failure(self, error: Exception) -> None:
        self._failures += 1
        if self._failures >= _MAX_FAILURES:
            raise ConnectorError(f"{self._failures} inputs in a row failed, the last one: {error!r}") from error

    def _count(self, result: StepResult) -> None:
        self.ignored.update(result.ignored)
        if result.ignored:
            log.debug("input ignored", reasons=dict(result.ignored))


def _require_fit(messages: Iterable[Message], rows: Iterable[Row]) -> None:
    """Raises RecordError if something would not fit into a Kafka record: better one input lost than the worker."""
    largest = max((len(value or b"") for value in (*(m.value for m in messages), *(v for _, v in rows))), default=0)
    if largest > _MAX_RECORD_BYTES:
        raise RecordError("too_large", f"it would make a record of {largest} bytes")


def refused_input(console: str, place: str, act: str, written_ns: int, error: RecordError) -> AuditEntry:
    """The audit's entry for a message that could not be used, however long its texts and odd its times are."""
    return AuditEntry(
        id=transition_id(console, place.removeprefix("offset "), "refused", act),
        console=printable(console, _LONGEST_CONSOLE),
        alarm="",
        act=act,
        by="",
        why="",
        at_ns=min(max(written_ns, 0), END_NS - 1),
        outcome="refused",
        reason=printable(error.detail, _LONGEST_REASON),
        input=place,
    )
