"""The state machine of one alarm: what raising, returning and each command do to it. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from agent.alarms.core.alarm import Alarm, Json, OutOfService, Shelving
from agent.alarms.core.catalogue import Limits
from agent.alarms.core.inputs import Command
from agent.contracts.alarms import Change
from connectors.timestamps import format_iso


class CommandRefused(Exception):
    """The alarm's state does not allow the command; the message says why."""


def raise_alarm(alarm: Alarm, now_ns: int, snapshot: Json | None) -> Alarm:
    """A new occurrence is unacknowledged, whatever was acknowledged before."""
    return replace(
        alarm,
        active=True,
        acknowledged=False,
        annunciated=not alarm.hidden,
        latched=False,
        occurrences=alarm.occurrences + 1,
        raised_ns=now_ns,
        returned_ns=None,
        acknowledged_ns=None,
        reminded_ns=now_ns,
        raised_by=snapshot,
        strongest=snapshot,
    )


def return_alarm(alarm: Alarm, now_ns: int, *, latching: bool) -> Alarm:
    """An occurrence that was never annunciated needs no acknowledgement."""
    acknowledged = alarm.acknowledged or not alarm.annunciated
    return replace(alarm, active=False, acknowledged=acknowledged, latched=latching, returned_ns=now_ns, held=False)


def annunciate_if_visible(alarm: Alarm, now_ns: int) -> Alarm:
    """After it was hidden: an occurrence that is still active and was never shown is shown now."""
    if alarm.hidden or not alarm.active or alarm.acknowledged or alarm.annunciated:
        return alarm
    return replace(alarm, annunciated=True, reminded_ns=now_ns)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The alarm after a command; `change` is None where the command changed nothing, like a comment."""

    alarm: Alarm
    change: Change | None


def apply_command(alarm: Alarm, command: Command, now_ns: int, limits: Limits) -> CommandResult:
    """Raises CommandRefused."""
    return _VERBS[command.verb](alarm, command, now_ns, limits)


def is_shelving_over(alarm: Alarm, now_ns: int) -> bool:
    return alarm.shelved is not None and now_ns >= alarm.shelved.until_ns


def unshelve(alarm: Alarm, now_ns: int) -> Alarm:
    return annunciate_if_visible(replace(alarm, shelved=None), now_ns)


def duration_text(seconds: float) -> str:
    """In the largest unit that leaves a whole number."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _acknowledge(alarm: Alarm, command: Command, now_ns: int, _: Limits) -> CommandResult:
    if alarm.state not in ("unacknowledged", "returned"):
        raise CommandRefused(f"it is {_state_text(alarm)}; there is nothing to acknowledge")
    return CommandResult(replace(alarm, acknowledged=True, acknowledged_ns=now_ns, held=False), "acknowledged")


def _shelve(alarm: Alarm, command: Command, now_ns: int, limits: Limits) -> CommandResult:
    _require_reason(command)
    until = command.until_ns
    if until is None:
        raise CommandRefused("shelving needs an expiry")
    if alarm.hidden:
        raise CommandRefused(f"it is {_state_text(alarm)} already")
    if until <= now_ns:
        raise CommandRefused(f"the expiry {format_iso(until)} is over")
    if until > now_ns + limits.max_shelving_ns:
        raise CommandRefused(f"nothing is shelved for longer than {duration_text(limits.max_shelving_ns / 1e9)}")
    return CommandResult(replace(alarm, shelved=Shelving(command.by, command.why, until), held=False), "shelved")


def _unshelve(alarm: Alarm, command: Command, now_ns: int, _: Limits) -> CommandResult:
    if alarm.shelved is None:
        raise CommandRefused(f"it is {_state_text(alarm)}, not shelved")
    return CommandResult(unshelve(alarm, now_ns), "unshelved")


def _take_out_of_service(alarm: Alarm, command: Command, now_ns: int, _: Limits) -> CommandResult:
    _require_reason(command)
    if alarm.out_of_service:
        raise CommandRefused("it is out of service already")
    out_of_service = OutOfService(command.by, command.why)
    return CommandResult(replace(alarm, out_of_service=out_of_service, shelved=None, held=False), "out_of_service")


def _return_to_service(alarm: Alarm, command: Command, now_ns: int, _: Limits) -> CommandResult:
    if alarm.out_of_service is None:
        raise CommandRefused(f"it is {_state_text(alarm)}, not out of service")
    return CommandResult(annunciate_if_visible(replace(alarm, out_of_service=None), now_ns), "in_service")


def _reset(alarm: Alarm, command: Command, now_ns: int, _: Limits) -> CommandResult:
    if alarm.state != "latched":
        raise CommandRefused(f"it is {_state_text(alarm)}, not latched")
    return CommandResult(replace(alarm, latched=False), "reset")


def _comment(alarm: Alarm, command: Command, now_ns: int, _: Limits) -> CommandResult:
    _require_reason(command)
    return CommandResult(alarm, None)


def _require_reason(command: Command) -> None:
    if not command.why.strip():
        raise CommandRefused(f"{command.verb} needs a reason")


def _state_text(alarm: Alarm) -> str:
    if alarm.state == "suppressed":
        return f"suppressed by {', '.join(alarm.suppressed_by)}"
    return alarm.state.replace("_", " ")


_VERBS: Mapping[str, Callable[[Alarm, Command, int, Limits], CommandResult]] = {
    "ack": _acknowledge,
    "shelve": _shelve,
    "unshelve": _unshelve,
    "out-of-service": _take_out_of_service,
    "in-service": _return_to_service,
    "reset": _reset,
    "comment": _comment,
}
