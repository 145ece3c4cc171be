"""Why a service cannot be used: unreachable, TLS, login, or another topology. Pure."""

import ssl
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Outage:
    """`unreachable`: no answer. `tls`, `login`: the service answers and refuses us. `reason` is one line.

    `topology`: it answers, and is not what the address says, for example one node of a cluster.
    """

    kind: Literal["unreachable", "tls", "login", "topology"]
    reason: str


def tls_failure(error: BaseException | None) -> Outage | None:
    """The TLS error behind an exception, if there is one: clients wrap it in errors of their own."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, ssl.SSLError):
            return Outage("tls", one_line(getattr(error, "verify_message", "") or error.reason or error))
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def one_line(text: object) -> str:
    return " ".join(str(text).split())
