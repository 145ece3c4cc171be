"""The state machine of one alarm: what each happening and each command makes of it. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from agent.alarms.core.alarm import Alarm, Json, OutOfService, Shelving
from agent.alarms.core.catalogue import Limits
from agent.alarms.core.inputs import Command
from agent.alarms.core.transitions import Change
from agent.alarms.times import span
from connectors.timestamps import format_iso


class CommandRefused(Exception):
    """The alarm is not in a state for this command; the message says why."""


def raised(alarm: Alarm, now_ns: int, snapshot: Json | None) -> Alarm:
    """Nobody has seen it yet, whatever was acknowledged before."""
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


def returned(alarm: Alarm, now_ns: int, *, latching: bool) -> Alarm:
    """What came and went while it was hidden needs nobody's acknowledgement."""
    seen = alarm.acknowledged or not alarm.annunciated
    return replace(alarm, active=False, acknowledged=seen, latched=latching, returned_ns=now_ns, held=False)


def exposed(alarm: Alarm, now_ns: int) -> Alarm:
    """No longer hidden: an alarm that is still there and unseen is shown now."""
    if alarm.hidden or not alarm.active or alarm.acknowledged or alarm.annunciated:
        return alarm
    return replace(alarm, annunciated=True, reminded_ns=now_ns)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The alarm after a command; `change` is None where nothing of its life changed."""

    alarm: Alarm
    change: Change | None


def apply_command(alarm: Alarm, command: Command, now_ns: int, limits: Limits) -> CommandResult:
    """Raises Refused."""
    return _VERBS[command.verb](alarm, command, now_ns, limits)


def expired(alarm: Alarm, now_ns: int) -> bool:
    return alarm.shelved is not None and now_ns >= alarm.shelved.until_ns


def unshelved(alarm: Alarm, now_ns: int) -> Alarm:
    return exposed(replace(alarm, shelved=None), now_ns)


def _acknowledge(alarm: Alarm, command: Command, now_ns: int, _: Limits) -> CommandResult:
    if alarm.state not in ("unacknowledged", "returned"):
        raise CommandRefused(f"it is {_words(alarm)}; there is nothing to acknowledge")
    return CommandResult(replace(alarm, acknowledged=True, acknowledged_ns=now_ns, held=False), "acknowledged")


def _shelve(alarm: Alarm, command: Command, now_ns: int, limits: Limits) -> CommandResult:
    _require_reason(command)
    until = command.until_ns
    if until is None:
        raise CommandRefused("shelving needs an expiry")
    if alarm.hidden:
        raise CommandRefused(f"it is {_words(alarm)} already")
    if until <= now_ns:
        raise CommandRefused(f"the expiry {format_iso(until)} is over")
    if until > now_ns + limits.max_shelving_ns:
        raise CommandRefused(f"nothing is shelved for longer than {span(limits.max_shelving_ns / 1e9)}")
    return CommandResult(replace(alarm, shelved=Shelving(command.by, command.why, until), held=False), "shelved")


def _unshelve(alarm: Alarm, command: Command, now_ns: int, _: Limits) -> CommandResult:
    if alarm.shelved is None:
        raise CommandRefused(f"it is {_words(alarm)}, not shelved")
    return CommandResult(unshelved(alarm, now_ns), "unshelved")


def _remove(alarm: Alarm, command: Command, now_ns: int, _: Limits) -> CommandResult:
    _require_reason(command)
    if alarm.out_of_service:
        raise CommandRefused("it is out of service already")
    gone = OutOfService(command.by, command.why)
    return CommandResult(replace(alarm, out_of_service=gone, shelved=None, held=False), "out_of_service")


def _put_back(alarm: Alarm, command: Command, now_ns: int, _: Limits) -> CommandResult:
    if alarm.out_of_service is None:
        raise CommandRefused(f"it is {_words(alarm)}, not out of service")
    return CommandResult(exposed(replace(alarm, out_of_service=None), now_ns), "in_service")


def _reset(alarm: Alarm, command: Command, now_ns: int, _: Limits) -> CommandResult:
    if alarm.state != "latched":
        raise CommandRefused(f"it is {_words(alarm)}, not latched")
    return CommandResult(replace(alarm, latched=False), "reset")


def _comment(alarm: Alarm, command: Command, now_ns: int, _: Limits) -> CommandResult:
    _require_reason(command)
    return CommandResult(alarm, None)


def _require_reason(command: Command) -> None:
    if not command.why.strip():
        raise CommandRefused(f"{command.verb} needs a reason")


def _words(alarm: Alarm) -> str:
    if alarm.state == "suppressed":
        return f"suppressed by {', '.join(alarm.suppressed_by)}"
    return alarm.state.replace("_", " ")


_VERBS: Mapping[str, Callable[[Alarm, Command, int, Limits], CommandResult]] = {
    "ack": _acknowledge,
    "shelve": _shelve,
    "unshelve": _unshelve,
    "out-of-service": _remove,
    "in-service": _put_back,
    "reset": _reset,
    "comment": _comment,
}
