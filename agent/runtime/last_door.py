"""The last door: what raises unexpectedly becomes a dead letter `internal`, counted and logged once per cause."""

import traceback
from dataclasses import dataclass

import structlog

from agent.dead_letters.letter import DeadLetter, dead_letter
from agent.errors import BreakerTripped
from agent.events.fault import Fault
from agent.health.counters import Counters
from agent.runtime.breaker import Breaker, BreakerLimits
from connectors.errors import shorten
from connectors.records import Partition, Record, RecordLike

log = structlog.get_logger()

INTERNAL = "internal"
_MAX_CAUSES = 1000
_MAX_DETAIL = 300


@dataclass(frozen=True, slots=True)
class _Cause:
    """Faults with the same cause are logged once."""

    stage: str
    exception: str
    place: str

    @classmethod
    def of(cls, fault: Fault) -> "_Cause":
        frames = traceback.extract_tb(fault.error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
        return cls(fault.stage, type(fault.error).__name__, place)


class LastDoor:
    """Behind decoding, windowing, classification and event building. Cancellation and `BreakerTripped` go through.

    Records and windows are judged apart: where only every tenth record makes a window due, a model that always fails
    would otherwise never trip the breaker.
    """

    def __init__(self, counters: Counters, limits: BreakerLimits | None = None) -> None:
        self._counters = counters
        self.records, self.windows = Breaker(limits or BreakerLimits()), Breaker(limits or BreakerLimits())
        self._known: set[_Cause] = set()

    @property
    def holds_commits(self) -> bool:
        return self.records.suspicious or self.windows.suspicious

    def refuse(self, record: RecordLike, partition: Partition, fault: Fault) -> DeadLetter:
        """The dead letter of a record that could not be ingested. Raises `BreakerTripped`."""
        self.note(fault, f"{partition}@{record.offset}")
        self.records.failed()
        self._check(self.records, "records", fault, f"{partition}@{record.offset}")
        return _letter(record, partition, fault)

    def refuse_window(self, record: RecordLike, partition: Partition, fault: Fault) -> DeadLetter:
        """The dead letter of the record that made a window due which could not be told. Raises `BreakerTripped`."""
        self.note(fault, f"{partition}@{record.offset}")
        self.windows.failed()
        self._check(self.windows, "windows", fault, f"{partition}@{record.offset}")
        return _letter(record, partition, fault)

    def note(self, fault: Fault, place: str) -> None:
        """Count a fault, and log it if its cause is new."""
        self._counters.internal_errors[fault.stage] += 1
        cause = _Cause.of(fault)
        if cause not in self._known and len(self._known) < _MAX_CAUSES:
            self._known.add(cause)
            log.error(
                "internal error; further ones with this cause are counted, not logged",
                stage=fault.stage,
                place=place,
                exception=cause.exception,
                exc_info=fault.error,
            )

    def _check(self, breaker: Breaker, what: str, fault: Fault, place: str) -> None:
        if breaker.tripped:
            limits = breaker.limits
            raise BreakerTripped(
                f"{breaker.failures} of the last {limits.records} {what} raised an exception inside the agent, last "
                f"{_describe(fault)} in {fault.stage} at {place}. This is a fault of the agent or of this machine, not "
                "of single records, so it stops; what failed since something last passed is not committed. "
                "The traceback is in the log. Go back to the version that ran before, or report it; "
                "limits.breaker sets how many failures are too many."
            )


def _letter(record: RecordLike, partition: Partition, fault: Fault) -> DeadLetter:
    text, exception = f"{fault.stage}: {_describe(fault)}", type(fault.error).__name__
    try:
        return dead_letter(record, partition, reason=INTERNAL, detail=text, exception=exception)
    except Exception:  # noqa: BLE001  # if the record itself cannot be written, its place can
        bare = Record(record.offset, -1, None, None)
        return dead_letter(bare, partition, reason=INTERNAL, detail=text, exception=exception)


def _describe(fault: Fault) -> str:
    try:
        text = shorten(str(fault.error), _MAX_DETAIL)
    except Exception:  # noqa: BLE001  # somebody else's __str__
        text = "(no text)"
    return f"{type(fault.error).__name__}: {text}"
