"""What the alarms publish: the present state per alarm, its transitions, and the audit. Pure."""

from typing import Any, Literal

from agent.contracts.base import Contract, Timestamp, described

INPUTS, TRANSITIONS, ALARMS, AUDIT = "alarm-inputs", "alarm-transitions", "alarms", "alarm-audit"
TRANSITION_SCHEMA = "urn:anchormoe-agent:alarm-transition:v1"
ALARM_SCHEMA = "urn:anchormoe-agent:alarm:v1"
AUDIT_SCHEMA = "urn:anchormoe-agent:alarm-audit:v1"

Priority = Literal["low", "medium", "high"]
State = Literal[
    "normal",
    "unacknowledged",
    "acknowledged",
    "returned",
    "latched",
    "shelved",
    "suppressed",
    "out_of_service",
]
Change = Literal[
    "raised",
    "returned",
    "acknowledged",
    "shelved",
    "unshelved",
    "shelving_expired",
    "suppressed",
    "unsuppressed",
    "out_of_service",
    "in_service",
    "reset",
    "held",
    "released",
    "chattering",
    "chatter_over",
    "reminded",
]


class Rationale(Contract):
    """Why somebody must look and what they do then."""

    cause: str = described("What is most likely wrong.")
    consequence: str = described("What happens if nobody acts.")
    action: str = described("What the operator does.")
    respond_within_s: float = described("Time in which acting still helps.", unit="s", ge=0)


class Hiding(Contract):
    """A person's decision to hide an alarm."""

    by: str = described("Who.")
    why: str = described("Why.")
    until: Timestamp | None = described("When it ends by itself; null: not by itself.")


class AlarmHead(Contract):
    """What says which alarm is meant."""

    alarm: str = described("Id of the alarm, like `bearing-wear:pump-1`; also the key.", min_length=1)
    console: str = described("Where it is shown.")
    rule: str = described("The configured rule; `flood` for the summary of a flood.")
    asset: str = described("The asset; the console for the summary of a flood.")
    channel: str | None = described("The channel, where the alarm is for one.")
    priority: Priority = described("How soon it matters.")
    kind: Literal["process", "technical"] = described("Whether the process or the way of the data is meant.")


class AlarmTransition(AlarmHead):
    """A change of an alarm's life. De-duplicate by `id`."""

    id: str = described("Same for the same transition, however often it is sent.", min_length=1)
    change: Change = described("What happened.")
    before: State = described("State before.")
    after: State = described("State after.")
    at: Timestamp = described("Time of the input log at which it happened.")
    event_time: Timestamp | None = described("Event time of the event that did it; null for commands and ticks.")
    by: str = described("Who did it; `system` where nobody did.")
    why: str = described("Why.")
    input: str = described("Id of the event, command or tick that did it.")
    occurrence: int = described("How often the alarm has been raised.", ge=0)
    announces: bool = described("The operator is shown something new to acknowledge.")
    held: bool = described("Shown only in the summary of a flood.")


class PresentAlarm(AlarmHead):
    """An alarm as it is now. Of several for one alarm the last counts."""

    state: State = described("Where it stands.")
    active: bool = described("Whether its condition is there, after the delays.")
    acknowledged: bool = described("Whether somebody has seen it.")
    raised: Timestamp | None = described("When it was last raised, in the time of the input log.")
    returned: Timestamp | None = described("When its condition was over; null while it lasts.")
    acknowledged_at: Timestamp | None = described("When somebody acknowledged it.")
    changed: Timestamp | None = described("When anything of this last changed.")
    occurrences: int = described("How often it has been raised.", ge=0)
    chattering: bool = described("It comes and goes three times a minute or more.")
    held: bool = described("Shown only in the summary of a flood.")
    shelved: Hiding | None = described("Who hides it for a while.")
    out_of_service: Hiding | None = described("Who took it out of service.")
    suppressed_by: list[str] = described("Alarms that hide it by design.")
    members: list[str] = described("What the summary of a flood holds.")
    rationale: Rationale | None = described("Why somebody must look; null for the summary of a flood.")
    raised_by: dict[str, Any] | None = described("The event that raised it: probability, window, evidence.")
    strongest: dict[str, Any] | None = described("The event with the highest probability since.")
    notice: str = described("What alarms must not be used for.")


class AuditRecord(Contract):
    """A command, or the system's own act: who, when, why, and what came of it."""

    id: str = described("Same for the same act, however often it is sent.", min_length=1)
    console: str = described("Where the alarm is shown.")
    alarm: str = described("The alarm that was meant; also the key.")
    act: str = described("The command.")
    by: str = described("Who.")
    why: str = described("Why.")
    at: Timestamp = described("When, in the time of the input log.")
    outcome: Literal["done", "refused"] = described("What came of it.")
    reason: str = described("Why it was refused; empty if it was not.")
    input: str = described("Id of the command or tick.")


class AlarmHeaders(Contract):
    """Headers of all messages of the alarms."""

    content_type: Literal["application/json"] = described("Of the value.", alias="content-type")
    dataschema: str = described("Name of the schema of the value, with its main version.", min_length=1)
