"""One alarm as a value, and the state an operator sees. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.contracts.alarms import State

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shelving:
    """Hidden by a person until a given time."""

    by: str
    why: str
    until_ns: int


@dataclass(frozen=True, slots=True)
class OutOfService:
    """Hidden by a person until it is put back into service."""

    by: str
    why: str


@dataclass(frozen=True, slots=True)
class Alarm:
    """`holds` is the condition as of the last event, `active` the condition after the on-delay and off-delay.

    Active and acknowledged are independent, as in OPC UA Part 9. `since_ns` is the event time at which `holds` last
    changed; all other times are those of the input log. `held` means: shown only in the summary alarm of a flood.
    The field names are part of the stored rows.
    """

    id: str
    rule: str
    asset: str
    channel: str | None = None
    holds: bool = False
    since_ns: int = 0
    active: bool = False
    acknowledged: bool = True
    annunciated: bool = False
    latched: bool = False
    shelved: Shelving | None = None
    out_of_service: OutOfService | None = None
    suppressed_by: tuple[str, ...] = ()
    held: bool = False
    chattering: bool = False
    latest_raises_ns: tuple[int, ...] = ()
    occurrences: int = 0
    raised_ns: int | None = None
    returned_ns: int | None = None
    acknowledged_ns: int | None = None
    reminded_ns: int | None = None
    changed_ns: int | None = None
    raised_by: Json | None = None
    strongest: Json | None = None
    members: tuple[str, ...] = ()

    @property
    def state(self) -> State:
        """What hides the alarm takes precedence, then whether it is active, then whether it is acknowledged."""
        if self.out_of_service:
            return "out_of_service"
        if self.suppressed_by:
            return "suppressed"
        if self.shelved:
            return "shelved"
        return self._visible_state()

    def _visible_state(self) -> State:
        if self.active:
            return "acknowledged" if self.acknowledged else "unacknowledged"
        if not self.acknowledged:
            return "returned"
        return "latched" if self.latched else "normal"

    @property
    def hidden(self) -> bool:
        return bool(self.out_of_service or self.suppressed_by or self.shelved)

    @property
    def can_suppress(self) -> bool:
        """An alarm that a person has hidden must not hide others as well."""
        return self.active and not self.shelved and not self.out_of_service


def alarm_from_row(row: Json) -> Alarm:
    """The inverse of serialising the dataclass to JSON."""
    shelved, out_of_service = row["shelved"], row["out_of_service"]
    converted = {
        "shelved": Shelving(**shelved) if shelved else None,
        "out_of_service": OutOfService(**out_of_service) if out_of_service else None,
        **{name: tuple(row[name]) for name in ("suppressed_by", "latest_raises_ns", "members")},
    }
    return Alarm(**{**row, **converted})
