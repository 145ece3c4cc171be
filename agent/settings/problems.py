"""Problems of a configuration: where, what is wrong, and what would be right. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from pydantic_core import PydanticCustomError

from connectors.printable import printable

Path = tuple[str | int, ...]
Severity = Literal["error", "warning", "info"]

INVALID = "invalid"
"""Type of our errors among pydantic's own."""

_BEFORE_LOGIN = re.compile(r"['\"]?(?:[a-z0-9+.-]+://)?")


@dataclass(frozen=True, slots=True)
class Problem:
    """One line for the user. `line` and `column` count from 1; 0 means that the place in the file is unknown.

    What it quotes from the file is escaped where a terminal would obey it.
    """

    path: Path
    wrong: str
    right: str = ""
    severity: Severity = "error"
    line: int = 0
    column: int = 0
    may_pass: bool = False
    """What is missing may be there in a moment, without a change of the configuration."""

    def __post_init__(self) -> None:
        for name in ("wrong", "right"):
            object.__setattr__(self, name, printable(getattr(self, name), keep="\n"))

    def below(self, prefix: Path) -> "Problem":
        return replace(self, path=prefix + self.path)

    @property
    def field(self) -> str:
        """Like `groups[1].window.hop`."""
        text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return printable(text.removeprefix("."))

    @property
    def message(self) -> str:
        return f"{self.wrong}; {self.right}" if self.right else self.wrong

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.path else self.message


def warning(path: Path, wrong: str, right: str = "") -> Problem:
    """Valid, but perhaps not what the author meant."""
    return Problem(path, wrong, right, severity="warning")


def info(path: Path, wrong: str, right: str = "") -> Problem:
    """Nothing is wrong, but the author may want to know it."""
    return Problem(path, wrong, right, severity="info")


def invalid_section(problems: Iterable[Problem]) -> PydanticCustomError:
    """All broken rules of one section in one exception, because a pydantic validator can raise only once."""
    found = tuple(problems)
    text = " / ".join(str(problem) for problem in found)
    return PydanticCustomError(INVALID, "{text}", {"text": text, "problems": found})


def invalid(wrong: str, right: str = "", *, may_pass: bool = False) -> PydanticCustomError:
    """A value that breaks a rule."""
    return invalid_section([Problem((), wrong, right, may_pass=may_pass)])


def without_login(text: str) -> str:
    """One value without user and password: an error message must not carry secrets into a log.

    Up to the last `@`: a password may have slashes, and a broker's address has no scheme.
    """
    login, at, host = text.rpartition("@")
    start = _BEFORE_LOGIN.match(login)
    return f"{start[0] if start else ''}***@{host}" if at else text
