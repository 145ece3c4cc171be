"""What the alarms publish: present alarms, transitions, audit; and the names of their streams and schemas. Pure."""

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
    """Why the operator must respond, and how."""

    cause: str = described("The most likely cause.")
    consequence: str = described("What happens if nobody responds.")
    action: str = described("What the operator should do.")
    respond_within_s: float = described("Time within which a response still helps.", unit="s", ge=0)


class Hiding(Contract):
    """Who hides an alarm, why, and until when."""

    by: str = described("Who.")
    why: str = described("Why.")
    until: Timestamp | None = described("When it ends by itself; null: it does not.")


class AlarmHead(Contract):
    """Which alarm it is."""

    alarm: str = described("Id of the alarm, like `bearing-wear:pump-1`; also the key.", min_length=1)
    console: str = described("The console that shows it.")
    rule: str = described("The configured rule; `flood` for the summary of a flood.")
    asset: str = described("The asset; the console for the summary of a flood.")
    channel: str | None = described("The channel, where the alarm is for one.")
    priority: Priority = described("How urgent it is.")
    kind: Literal["process", "technical"] = described(
        "`process`: about the asset; `technical`: about its data, the model or the agent."
    )


class AlarmTransition(AlarmHead):
    """A change of an alarm. De-duplicate by `id`."""

    id: str = described("Same for the same transition, however often it is sent.", min_length=1)
    change: Change = described("What changed.")
    before: State = described("State before.")
    after: State = described("State after.")
    at: Timestamp = described("When it happened, in the input log's time.")
    event_time: Timestamp | None = described("Event time of the event that caused it; null for commands and ticks.")
    by: str = described("Who did it; `system` if no person did.")
    why: str = described("Why.")
    input: str = described("Id of the event, command or tick that caused it.")
    occurrence: int = described("How often the alarm has been raised.", ge=0)
    announces: bool = described("The operator is shown something new to acknowledge.")
    held: bool = described("Shown only in the summary of a flood.")


class PresentAlarm(AlarmHead):
    """The present state of an alarm. Of several messages for one alarm the last one counts."""

    state: State = described("Its state.")
    active: bool = described("Whether its condition holds, after the delays.")
    acknowledged: bool = described("Whether it was acknowledged.")
    raised: Timestamp | None = described("When it was last raised, in the input log's time.")
    returned: Timestamp | None = described("When it returned; null while it is active.")
    acknowledged_at: Timestamp | None = described("When it was acknowledged.")
    changed: Timestamp | None = described("When it last changed.")
    occurrences: int = described("How often it has been raised.", ge=0)
    chattering: bool = described("It is raised three times a minute or more.")
    held: bool = described("Shown only in the summary of a flood.")
    shelved: Hiding | None = described("Who shelved it, why, and until when.")
    out_of_service: Hiding | None = described("Who took it out of service, and why.")
    suppressed_by: list[str] = described("Alarms that suppress it by design.")
    members: list[str] = described("The alarms that the summary of a flood holds.")
    rationale: Rationale | None = described("Why the operator must respond; null for the summary of a flood.")
    raised_by: dict[str, Any] | None = described("The event that raised it: probability, window, evidence.")
    strongest: dict[str, Any] | None = described("The event with the highest probability since.")
    notice: str = described("What alarms must not be used for.")


class AuditRecord(Contract):
    """A command, or an act of the system: who, when, why, and the outcome."""

    id: str = described("Same for the same act, however often it is sent.", min_length=1)
    console: str = described("The console that shows the alarm.")
    alarm: str = described("Id of the alarm; also the key.")
    act: str = described("The command.")
    by: str = described("Who.")
    why: str = described("Why.")
    at: Timestamp = described("When, in the input log's time.")
    outcome: Literal["done", "refused"] = described("The outcome.")
    reason: str = described("Why it was refused; empty if it was not.")
    input: str = described("Id of the command or tick.")


class AlarmHeaders(Contract):
    """Headers of all messages about alarms."""

    content_type: Literal["application/json"] = described("Of the value.", alias="content-type")
    dataschema: str = described("Name of the schema of the value, with its main version.", min_length=1)
