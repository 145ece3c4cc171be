"""The ledger of the campaign: one JSON line per round, appended by whoever ran it, so that runs accumulate."""

import fcntl
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Round:
    """`failure` says why it could not be finished. `load` is the load average before and after.

    `started`: agents are started anew, or `forked` from a process that has their libraries loaded already. `mended` is
    the commit that mended the product where this round found it wrong.
    """

    seed: int
    profile: str
    commit: str
    date: str
    seconds: float
    load: Sequence[float]
    faults: Sequence[dict[str, Any]]
    counts: dict[str, int]
    lost: int
    extra: int
    different: int
    wrong_states: Sequence[str]
    unreported: Sequence[str]
    failure: str | None = None
    started: str = "anew"
    mended: str = ""

    @property
    def same(self) -> bool:
        wrong = self.lost or self.extra or self.different or self.counts["conflicts"]
        return not (self.failure or wrong or self.wrong_states or self.unreported)


def append_round(ledger: Path, round: Round) -> None:
    """One write under a lock: several processes may run rounds at the same time, and one may have been interrupted."""
    ledger.parent.mkdir(parents=True, exist_ok=True)
    with ledger.open("a+b") as out:
        fcntl.flock(out, fcntl.LOCK_EX)
        out.seek(max(out.seek(0, 2) - 1, 0))
        broken = out.read(1) not in (b"", b"\n")
        out.write(b"\n" * broken + orjson.dumps(asdict(round)) + b"\n")


def read_rounds(ledger: Path) -> list[Round]:
    """In order of their seeds. A line that is not whole, from an interrupted run, is left out."""
    found = [_parse(line) for line in ledger.read_bytes().splitlines()] if ledger.exists() else []
    return sorted((each for each in found if each is not None), key=lambda each: each.seed)


def next_seed(rounds: Iterable[Round], first: int) -> int:
    return max([each.seed + 1 for each in rounds], default=first)


def _parse(line: bytes) -> Round | None:
    try:
        return Round(**orjson.loads(line))
    except (orjson.JSONDecodeError, TypeError):
        return None
