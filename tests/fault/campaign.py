"""The long campaign behind docs/results/faults.md: faults of every kind, several rounds at the same time.

python -m tests.fault.campaign --faults 1000 --out docs/results/faults.md

Rounds are added to a ledger, and the page is written from all of it: the campaign can be interrupted and continued.
Most of a fault is waiting, for a time-out or a process that starts, so rounds run beside each other (`--lanes`).
"""

import argparse
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import orjson

from agent.logs import set_up_logs
from tests.fault.campaign_ledger import Round, append_round, next_seed, read_rounds
from tests.fault.campaign_report import write_page
from tests.fault.campaign_rounds import PROFILES, RoundPlan, plan_rounds, run_round
from tests.support.interruption import interrupt_on_sigterm

_ROUND_TIMEOUT_S = 2400.0
_CHECK_S = 0.5
_INTERRUPTED = 130


class Lanes:
    """Rounds as processes, so many at a time; each writes its own line of the ledger."""

    def __init__(self, ledger: Path, logs: Path, count: int) -> None:
        self._ledger, self._logs, self._count = ledger, logs, count
        self._running: dict[int, tuple[RoundPlan, float, subprocess.Popen[bytes]]] = {}

    @property
    def free(self) -> bool:
        return len(self._running) < self._count

    @property
    def idle(self) -> bool:
        return not self._running

    def start(self, plan: RoundPlan) -> None:
        command = [sys.executable, "-m", "tests.fault.campaign", "--ledger", str(self._ledger), "--logs"]
        command += [str(self._logs), "--round", orjson.dumps([plan.seed, plan.profile, plan.count, plan.only]).decode()]
        self._running[plan.seed] = (plan, time.monotonic(), subprocess.Popen(command))

    def collect(self) -> bool:
        """Whether a round has ended. One that takes too long, or ends without its line, is a round not finished."""
        ended = [seed for seed, lane in self._running.items() if self._has_ended(*lane)]
        for seed in ended:
            plan, _, process = self._running.pop(seed)
            if not any(each.seed == seed for each in read_rounds(self._ledger)):
                append_round(self._ledger, _unfinished(plan, process.returncode))
        return bool(ended)

    def stop(self) -> None:
        for _, _, process in self._running.values():
            process.terminate()
        for _, _, process in self._running.values():
            process.wait()

    def _has_ended(self, plan: RoundPlan, started_s: float, process: "subprocess.Popen[bytes]") -> bool:
        if process.poll() is None and time.monotonic() - started_s > _ROUND_TIMEOUT_S:
            process.terminate()
            process.wait()
        return process.poll() is not None


def main() -> None:
    given = _arguments()
    set_up_logs("console", "error")
    interrupt_on_sigterm()
    if given.round:
        _run_one(given)
        return
    before = read_rounds(given.ledger)
    plans = plan_rounds(given.faults, given.per_round, next_seed(before, given.seed), given.only, given.profile)
    lanes, begun_s = Lanes(given.ledger, given.logs, given.lanes), time.monotonic()
    try:
        while plans or not lanes.idle:
            late = given.minutes and time.monotonic() - begun_s > 60 * given.minutes
            if late and plans:
                print("no further rounds: --minutes", flush=True)
                plans = []
            if plans and lanes.free:
                lanes.start(plans.pop(0))
            elif lanes.collect():
                write_page(given.ledger, given.out, given.lanes)
            else:
                time.sleep(_CHECK_S)
    except KeyboardInterrupt:
        print("interrupted; the finished rounds count", flush=True)
    finally:
        lanes.stop()
    write_page(given.ledger, given.out, given.lanes)
    if not given.faults:
        return
    new = [each for each in read_rounds(given.ledger) if each.seed >= next_seed(before, given.seed)]
    sys.exit(0 if new and all(each.same for each in new) else 1)


def _run_one(given: argparse.Namespace) -> None:
    seed, profile, count, only = orjson.loads(given.round)
    try:
        found = run_round(RoundPlan(seed, profile, count, only), given.logs)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    append_round(given.ledger, found)
    verdict = found.failure or ("same" if found.same else f"DIFFERENT, see {given.logs}/round-{seed}")
    counts = f"{found.lost} lost, {found.extra} extra, {found.different} different"
    when = f"{datetime.now(UTC):%H:%M:%S}"
    print(
        f"{when} [{seed}] {profile}, {len(found.faults)} faults in {found.seconds:.0f} s: {counts}; {verdict}",
        flush=True,
    )


def _unfinished(plan: RoundPlan, code: int | None) -> Round:
    counts = dict.fromkeys(("records", "expected", "published", "repeated", "conflicts", "history_lost"), 0)
    return Round(
        seed=plan.seed,
        profile=plan.profile,
        commit="unknown",
        date="",
        seconds=0.0,
        load=(0.0, 0.0),
        faults=[],
        counts=counts,
        lost=0,
        extra=0,
        different=0,
        wrong_states=[],
        unreported=[],
        failure=f"the round's process ended with {code}",
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=100, help="how many more; 0 only writes the page again")
    parser.add_argument("--per-round", type=int, default=20, help="faults between two comparisons")
    parser.add_argument("--lanes", type=int, default=2, help="rounds at the same time")
    parser.add_argument("--seed", type=int, default=1, help="of the first round of a new ledger")
    parser.add_argument("--only", action="append", default=[], help="only this fault; repeatable")
    parser.add_argument("--profile", action="append", default=[], choices=PROFILES, help="only such rounds; repeatable")
    parser.add_argument("--minutes", type=float, help="start no further round after this time")
    parser.add_argument("--ledger", type=Path, default=Path("docs/results/faults.jsonl"))
    parser.add_argument("--out", type=Path, help="file for the report")
    parser.add_argument("--logs", type=Path, default=None, help="logs of rounds that were not as they should be")
    parser.add_argument("--round", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.logs = given.logs or Path(tempfile.mkdtemp(prefix="chaos-"))
    return given


if __name__ == "__main__":
    main()
