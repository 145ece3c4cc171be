"""What the alarms publish: present alarms, transitions, audit; and the names of their streams and schemas. Pure."""

from typing import Any, Literal

from agent.contracts.base import Contract, Timestamp, contract_field

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

    cause: str = contract_field("The most likely cause.")
    consequence: str = contract_field("What happens if nobody responds.")
    action: str = contract_field("What the operator should do.")
    respond_within_s: float = contract_field("Time within which a response still helps.", unit="s", ge=0)


class Hiding(Contract):
    """Who hides an alarm, why, and until when."""

    by: str = contract_field("Who.")
    why: str = contract_field("Why.")
    until: Timestamp | None = contract_field("When it ends by itself; null: it does not.")


class AlarmHead(Contract):
    """Which alarm it is."""

    alarm: str = contract_field("Id of the alarm, like `bearing-wear:pump-1`; also the key.", min_length=1)
    console: str = contract_field("The console that shows it.")
    rule: str = contract_field("The configured rule; `flood` for the summary of a flood.")
    asset: str = contract_field("The asset; the console for the summary of a flood.")
    channel: str | None = contract_field("The channel, where the alarm is for one.")
    priority: Priority = contract_field("How urgent it is.")
    kind: Literal["process", "technical"] = contract_field(
        "`process`: about the asset; `technical`: about its data, the model or the agent."
    )


class AlarmTransition(AlarmHead):
    """A change of an alarm. De-duplicate by `id`."""

    id: str = contract_field("Same for the same transition, however often it is sent.", min_length=1)
    change: Change = contract_field("What changed.")
    before: State = contract_field("State before.")
    after: State = contract_field("State after.")
    at: Timestamp = contract_field("When it happened, in the input log's time.")
    event_time: Timestamp | None = contract_field(
        "Event time of the event that caused it; null for commands and ticks."
    )
    by: str = contract_field("Who did it; `system` if no person did.")
    why: str = contract_field("Why.")
    input: str = contract_field("Id of the event, command or tick that caused it.")
    occurrence: int = contract_field("How often the alarm has been raised.", ge=0)
    announces: bool = contract_field("The operator is shown something new to acknowledge.")
    held: bool = contract_field("Shown only in the summary of a flood.")


class PresentAlarm(AlarmHead):
    """The present state of an alarm. Of several messages for one alarm the last one counts."""

    state: State = contract_field("Its state.")
    active: bool = contract_field("Whether its condition holds, after the delays.")
    acknowledged: bool = contract_field("Whether it was acknowledged.")
    raised: Timestamp | None = contract_field("When it was last raised, in the input log's time.")
    returned: Timestamp | None = contract_field("When it returned; null while it is active.")
    acknowledged_at: Timestamp | None = contract_field("When it was acknowledged.")
    changed: Timestamp | None = contract_field("When it last changed.")
    occurrences: int = contract_field("How often it has been raised.", ge=0)
    chattering: bool = contract_field("It is raised three times a minute or more.")
    held: bool = contract_field("Shown only in the summary of a flood.")
    shelved: Hiding | None = contract_field("Who shelved it, why, and until when.")
    out_of_service: Hiding | None = contract_field("Who took it out of service, and why.")
    suppressed_by: list[str] = contract_field("Alarms that suppress it by design.")
    members: list[str] = contract_field("The alarms that the summary of a flood holds; the first 1,000 of them by id.")
    rationale: Rationale | None = contract_field("Why the operator must respond; null for the summary of a flood.")
    raised_by: dict[str, Any] | None = contract_field("The event that raised it: probability, window, evidence.")
    strongest: dict[str, Any] | None = contract_field("The event with the highest probability since.")
    notice: str = contract_field("What alarms must not be used for.")


class AuditRecord(Contract):
    """A command, or an act of the system: who, when, why, and the outcome."""

    id: str = contract_field("Same for the same act, however often it is sent.", min_length=1)
    console: str = contract_field("The console that shows the alarm.")
    alarm: str = contract_field("Id of the alarm; also the key.")
    act: str = contract_field("The command.")
    by: str = contract_field("Who.")
    why: str = contract_field("Why.")
    at: Timestamp = contract_field("When, in the input log's time.")
    outcome: Literal["done", "refused"] = contract_field("The outcome.")
    reason: str = contract_field("Why it was refused; empty if it was not.")
    input: str = contract_field("Id of the command or tick.")


class AlarmHeaders(Contract):
    """Headers of all messages about alarms."""

    content_type: Literal["application/json"] = contract_field("Of the value.", alias="content-type")
    dataschema: str = contract_field("Name of the schema of the value, with its main version.", min_length=1)
