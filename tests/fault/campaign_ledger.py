"""The ledger of the campaign: one JSON line per round, appended by whoever ran it, so that runs accumulate."""

import argparse
import fcntl
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from connectors.atomic_file import replace_file


@dataclass(frozen=True, slots=True)
class Round:
    """`failure` says why it could not be finished. `load` is the load average before and after.

    `started`: agents are started anew, or `forked` from a process that has their libraries loaded already. `mended` is
    the commit that mended the product where this round found it wrong. `dismissed` is why a round does not count: a
    fault of the campaign itself. Both are written by hand (`python -m tests.fault.campaign_ledger`).
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
    dismissed: str = ""

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


def annotate(ledger: Path, seeds: Collection[int], *, mended: str = "", dismissed: str = "") -> None:
    rounds = read_rounds(ledger)
    marked = [replace(each, mended=mended, dismissed=dismissed) if each.seed in seeds else each for each in rounds]
    lines = [asdict(each) for each in marked]
    replace_file(ledger, (orjson.dumps(line) + b"\n" for line in lines))


def next_seed(rounds: Iterable[Round], first: int) -> int:
    return max([each.seed + 1 for each in rounds], default=first)


def main() -> None:
    """`LEDGER --mended COMMIT SEED …` or `LEDGER --dismissed REASON SEED …`"""
    parser = argparse.ArgumentParser(description="Annotate rounds of the campaign's ledger.")
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--mended", default="", help="commit that mended what these rounds found")
    parser.add_argument("--dismissed", default="", help="why these rounds do not count: a fault of the campaign")
    parser.add_argument("seeds", type=int, nargs="+")
    given = parser.parse_args()
    annotate(given.ledger, set(given.seeds), mended=given.mended, dismissed=given.dismissed)


def _parse(line: bytes) -> Round | None:
    try:
        return Round(**orjson.loads(line))
    except (orjson.JSONDecodeError, TypeError):
        return None


if __name__ == "__main__":
    main()
