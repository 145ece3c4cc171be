"""One alarm's life as a value, and the word for where it stands. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.contracts.alarms import State

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shelving:
    """Hidden by a person for a while."""

    by: str
    why: str
    until_ns: int


@dataclass(frozen=True, slots=True)
class OutOfService:
    """Hidden by a person until they say otherwise."""

    by: str
    why: str


@dataclass(frozen=True, slots=True)
class Alarm:
    """`holds` is what the last event said, `active` what is left of it after the delays.

    Active and acknowledged are separate bits, as in OPC UA Part 9. `since_ns` is the asset's own time at which
    `holds` last changed; all other times are those of the input log.
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
        """Who hides it speaks first; then whether it is there; then who has seen it."""
        if self.out_of_service:
            return "out_of_service"
        if self.suppressed_by:
            return "suppressed"
        if self.shelved:
            return "shelved"
        return self._shown()

    def _shown(self) -> State:
        if self.active:
            return "acknowledged" if self.acknowledged else "unacknowledged"
        if not self.acknowledged:
            return "returned"
        return "latched" if self.latched else "normal"

    @property
    def hidden(self) -> bool:
        return bool(self.out_of_service or self.suppressed_by or self.shelved)

    @property
    def hides(self) -> bool:
        """Whether it may hide its consequences. One that nobody is shown must not hide others too."""
        return self.active and not self.shelved and not self.out_of_service


def alarm_from(row: Json) -> Alarm:
    """The inverse of serialising the dataclass to JSON."""
    shelved, removed = row["shelved"], row["out_of_service"]
    changed = {
        "shelved": Shelving(**shelved) if shelved else None,
        "out_of_service": OutOfService(**removed) if removed else None,
        **{name: tuple(row[name]) for name in ("suppressed_by", "latest_raises_ns", "members")},
    }
    return Alarm(**{**row, **changed})
