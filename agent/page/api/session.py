"""Who asks, and what is wrong with a request. Pure."""

from typing import Literal

from agent.contracts.base import Contract, contract_field

Role = Literal["view", "operate", "engineer"]


class Error(Contract):
    """Every answer with a status of 400 or more."""

    error: str = contract_field("What is wrong, for people.")
    field: str | None = contract_field("The field that is wrong, where it is one.", default=None)


class Session(Contract):
    """Who asks, and what the page can do here."""

    user: str = contract_field("Name; empty for somebody who did not log in.")
    role: Role | None = contract_field("What they may do; null: they must log in first.")
    login: bool = contract_field("Whether logging in is possible: a token or users are configured.")
    namespace: str = contract_field("Name of the plant; empty before log-in.")
    feed: Literal["agent", "topics"] = contract_field("Whether one agent shows its work, or the topics of the fleet.")
    version: str = contract_field("Version of anchormoe-agent.")
    now_ms: int = contract_field("The server's clock: ages must not depend on that of the browser.", unit="ms")
    commands: list[str] = contract_field("Verbs of alarm commands that this user may send; empty: none.")
    notice: str = contract_field("What the page must not be used for.")


class Login(Contract):
    """Body of POST /session."""

    token: str = contract_field("A token of `anchormoe-agent users`, or that of `http.token`.", max_length=1024)
