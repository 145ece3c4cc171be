"""What a fault is: a name, whom it affects, and how it is injected."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from agent.chaos.context import FaultContext
from agent.chaos.report import FaultOutcome

Scope = Literal["experiment", "server", "process"]
"""What is affected: only the experiment's own; everyone who uses the server; the server's process itself."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`breaks_log`: the log afterwards is not the one before, so both are judged by themselves (`agent.chaos.judge`).

    `agents` is how many must run.
    """

    name: str
    description: str
    scope: Scope
    inject: Callable[[FaultContext], Awaitable[FaultOutcome]]
    breaks_log: bool = False
    agents: int = 1
