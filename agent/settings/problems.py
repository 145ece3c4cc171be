"""What is wrong in a configuration, where, and what would be right. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from pydantic_core import PydanticCustomError

Path = tuple[str | int, ...]
Severity = Literal["error", "warning", "info"]

_LOGIN = re.compile(r"(?<=://)[^/@]*(?=@)")


@dataclass(frozen=True, slots=True)
class Problem:
    """One line for the user. `line` and `column` count from 1; 0 means the place in the file is not known."""

    path: Path
    wrong: str
    right: str = ""
    severity: Severity = "error"
    line: int = 0
    column: int = 0

    def below(self, prefix: Path) -> "Problem":
        return replace(self, path=prefix + self.path)

    @property
    def field(self) -> str:
        """Like `groups[1].window.hop`."""
        text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return text.removeprefix(".")

    @property
    def message(self) -> str:
        return f"{self.wrong}; {self.right}" if self.right else self.wrong

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.path else self.message


def warning(path: Path, wrong: str, right: str = "") -> Problem:
    """Something legal that its author may not have meant."""
    return Problem(path, wrong, right, severity="warning")


def info(path: Path, wrong: str, right: str = "") -> Problem:
    """Nothing is wrong: what its author may want to know."""
    return Problem(path, wrong, right, severity="info")


def refusals(problems: Iterable[Problem]) -> PydanticCustomError:
    """All broken rules of one section in one exception: a pydantic validator can raise only once."""
    found = tuple(problems)
    text = " / ".join(str(problem) for problem in found)
    return PydanticCustomError("refused", "{text}", {"text": text, "problems": found})


def refusal(wrong: str, right: str = "") -> PydanticCustomError:
    """One broken rule about the value itself."""
    return refusals([Problem((), wrong, right)])


def without_login(text: str) -> str:
    """An address as it may be shown: what is wrong in a file must not carry its secrets into a log."""
    return _LOGIN.sub("***", text)
