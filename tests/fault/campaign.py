"""The long campaign behind docs/results/faults.md: injuries of every kind, on a broker and a Redis of its own.

python -m tests.fault.campaign --injuries 100 --out docs/results/faults.md
"""

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from agent.chaos.config import ExperimentNames, ExperimentPace
from agent.chaos.context import Services
from agent.chaos.errors import ChaosError
from agent.chaos.experiment import Experiment, ExperimentSize, run_experiment
from agent.chaos.faults import INJURIES, Fault
from agent.chaos.plan import in_turn
from agent.chaos.report import ExperimentResult
from agent.logs import set_up_logs
from connectors.errors import ConnectorError
from tests.fault.campaign_report import Campaign, Failure, report
from tests.support.agent_process import Names, write_plant
from tests.support.services.kafka import KafkaBroker
from tests.support.services.redis import RedisOptions, RedisServer

BROKER = {"group.min.session.timeout.ms": "1000"}
MEMBER_TIMEOUT_S = 3.0


def main() -> None:
    given = _arguments()
    set_up_logs("console", "error")
    kinds = [INJURIES[name] for name in given.only] or list(INJURIES.values())
    order = in_turn(kinds, given.injuries, Random(given.seed))
    rounds = [order[low : low + given.per_trial] for low in range(0, len(order), given.per_trial)]
    campaign = Campaign(seed=given.seed, wanted=given.injuries, member_timeout_s=MEMBER_TIMEOUT_S)
    broker = KafkaBroker(properties=BROKER)
    try:
        broker.start()
        for number, injuries in enumerate(rounds):
            campaign.seconds = time.monotonic() - campaign.begun_s
            if given.minutes and campaign.seconds > 60 * given.minutes:
                print("time is up", flush=True)
                break
            _one_round(campaign, broker, injuries, given.seed + number, given.logs)
            _write(campaign, given.out, given.json)
    finally:
        broker.close()
    sys.exit(0 if campaign.same else 1)


def _one_round(campaign: Campaign, broker: KafkaBroker, injuries: Sequence[Fault], seed: int, logs: Path) -> None:
    """Every other round with a Redis that forgets when it is killed."""
    directory = logs / f"round-{seed}"
    with _redis(persistent=seed % 2 == 0) as redis:
        trial = _trial(broker, redis, directory, seed)
        try:
            outcome = asyncio.run(run_experiment(trial, injuries, lambda line: print(f"[{seed}] {line}", flush=True)))
        except (ChaosError, ConnectorError) as error:
            campaign.failures.append(Failure(seed, [injury.name for injury in injuries], str(error)))
            print(f"[{seed}] FAILED: {error}", flush=True)
            return
    campaign.outcomes.append(outcome)
    campaign.loads.append(os.getloadavg()[2])
    print(f"[{seed}] {_line(outcome)}", flush=True)
    if outcome.same:
        shutil.rmtree(directory)


def _line(outcome: ExperimentResult) -> str:
    compared = outcome.comparison
    return (
        f"{'same' if outcome.same else 'DIFFERENT'}: {outcome.expected} expected, {len(compared.missing)} missing, "
        f"{len(compared.extra)} extra, {len(compared.different)} different, {outcome.repeated} repeated"
    )


@contextmanager
def _redis(*, persistent: bool) -> Iterator[RedisServer]:
    server = RedisServer("redis", RedisOptions(persistent=persistent))
    try:
        server.start()
        yield server
    finally:
        server.close()


def _trial(broker: KafkaBroker, redis: RedisServer, directory: Path, seed: int) -> Experiment:
    directory.mkdir(parents=True)
    names = ExperimentNames(f"chaos-{uuid.uuid4().hex[:8]}")
    plant = write_plant(
        directory / "user.yaml",
        Names("chaos"),
        bootstrap=broker.bootstrap,
        redis_url=redis.url,
        emission={"policy": "all", "channels": "none"},
    )
    pace, size = ExperimentPace(member_timeout_s=MEMBER_TIMEOUT_S), ExperimentSize()
    return Experiment(plant, directory, names, seed, size, pace, Services(broker, redis))


def _write(campaign: Campaign, out: Path | None, as_json: Path | None) -> None:
    campaign.seconds = time.monotonic() - campaign.begun_s
    if out is not None:
        out.write_text(report(campaign), encoding="utf-8")
    if as_json is not None:
        as_json.write_text(json.dumps([outcome.as_json() for outcome in campaign.outcomes], indent=2))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--injuries", type=int, default=100)
    parser.add_argument("--per-trial", type=int, default=10, help="injuries between two comparisons")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], choices=sorted(INJURIES), help="these kinds; repeatable")
    parser.add_argument("--minutes", type=float, help="begin no further round after this time")
    parser.add_argument("--out", type=Path, help="where the report goes")
    parser.add_argument("--json", type=Path, help="where every figure goes")
    parser.add_argument(
        "--logs", type=Path, default=Path(tempfile.mkdtemp(prefix="chaos-")), help="logs of failed rounds"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
