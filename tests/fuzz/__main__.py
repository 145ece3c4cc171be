"""Fuzzes every door and writes docs/results/fuzz.md.

python -m tests.fuzz --records 5000000 --ledger out/fuzz.jsonl --out docs/results/fuzz.md
"""

import argparse
import hashlib
import re
import sys
from collections import Counter
from pathlib import Path

from agent.cli.progress import show_progress
from anchormoe.progress import Progress
from tests.fuzz.campaign import SHARES, plan, run
from tests.fuzz.cases import Regression, read, regression_files, save
from tests.fuzz.doors import all_doors
from tests.fuzz.ledger import Ledger, Line
from tests.fuzz.page import page

REGRESSIONS = Path(__file__).parent / "regressions"


def main() -> None:
    given = _arguments()
    ledger = Ledger(given.ledger)
    if given.page_only:
        _write(given.out, ledger, given)
        return
    chosen = {name: list(door.variants) for name, door in all_doors().items() if name in (given.doors or SHARES)}
    tasks = list(plan(ledger, chosen, given.records, given.seed))
    failures = Counter[str]()
    keep = _Keeper(given.regressions)
    total, done = sum(task.count for task in tasks), 0
    with show_progress("fuzz", lines=True) as show:

        def report(inputs: int, line: Line | None) -> None:
            nonlocal done
            done += inputs
            if line is not None:
                failures.update(line.failures)
            text = ", ".join(f"{kind} {count}" for kind, count in failures.items()) or "no failure"
            show(Progress("fuzz", done, total, detail=text))

        run(tasks, ledger, workers=given.workers, regressions=given.regressions, report=report, found=keep)
    _write(given.out, ledger, given)
    _conclude(failures, keep.written)


class _Keeper:
    """Writes each new finding once."""

    def __init__(self, directory: Path) -> None:
        self._directory, self.written = directory, list[Path]()
        self._known = {_identity(read(path)) for path in regression_files(directory)}

    def __call__(self, regression: Regression) -> None:
        if _identity(regression) in self._known:
            return
        self._known.add(_identity(regression))
        self.written.append(save(regression, self._directory, _name(regression)))


def _identity(regression: Regression) -> tuple[str, str]:
    return regression.door, regression.finding


def _name(regression: Regression) -> str:
    words = re.findall(r"[a-z]+", regression.finding.lower())
    digest = hashlib.sha256(regression.finding.encode()).hexdigest()[:6]
    return "-".join([*words[:7], digest])


def _write(out: Path | None, ledger: Ledger, given: argparse.Namespace) -> None:
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(ledger.lines, f"make fuzz N={given.records} SEED={given.seed}"), encoding="utf-8")


def _conclude(failures: Counter[str], written: list[Path]) -> None:
    for path in written:
        print(f"new: {path.with_suffix('.json')}", file=sys.stderr)
    if failures:
        sys.exit(f"broken promises: {', '.join(f'{kind} {count:,}' for kind, count in failures.items())}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000, help="inputs in all, those in the ledger included")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--doors", nargs="+", choices=list(SHARES), help="only these")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--ledger", type=Path, default=Path("out/fuzz.jsonl"), help="finished chunks; it goes on there")
    parser.add_argument("--out", type=Path, help="file for the page")
    parser.add_argument("--regressions", type=Path, default=REGRESSIONS, help="where failures are kept")
    parser.add_argument("--page-only", action="store_true", help="write the page from the ledger, run nothing")
    return parser.parse_args()


if __name__ == "__main__":
    main()
