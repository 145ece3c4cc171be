"""Present alarms, and commands to them. Pure."""

from agent.contracts.alarms import AuditRecord, PresentAlarm
from agent.contracts.base import Contract, contract_field
from agent.page.api.fleet import Link


class Alarms(Contract):
    """Present alarms, most urgent first, and the latest outcomes of commands."""

    configured: bool = contract_field("Whether the plant has alarm rules.")
    link: Link = contract_field("Whether the alarms are known; with `lost`, do not say that there are none.")
    reason: str = contract_field("Why the alarms are not known, or why there are none; else empty.")
    now_ms: int = contract_field("The server's clock.", unit="ms")
    max_shelving_s: float | None = contract_field("Longest shelving; null without alarm rules.", unit="s")
    alarms: list[PresentAlarm] = contract_field("As published: docs/contracts/alarm.schema.json.")
    audit: list[AuditRecord] = contract_field("The last 200 outcomes, newest first.")


class Command(Contract):
    """Body of POST /api/alarms/{verb}."""

    alarms: list[str] = contract_field("Ids of the alarms.", min_length=1, max_length=200)
    why: str = contract_field("The reason; required for `shelve`, `out-of-service` and `comment`.", default="")
    until: str | None = contract_field("End of a shelving, RFC 3339; required for `shelve`.", default=None)


class SentCommand(Contract):
    """The command is in the input log. Its outcome is the SSE event `o`, an AuditRecord whose `input` is `command`."""

    alarm: str = contract_field("Id of the alarm.")
    command: str | None = contract_field("Id of the command; null: it was not sent.")
    error: str = contract_field("Why it was not sent; else empty.")


class Accepted(Contract):
    """Answer to a command (202)."""

    by: str = contract_field("Who: from the session, never from the body.")
    commands: list[SentCommand] = contract_field("One per alarm, in order.")
