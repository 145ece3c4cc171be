"""The long campaign behind docs/results/faults.md: faults of every kind, on a broker and a Redis of its own.

python -m tests.fault.campaign --faults 100 --out docs/results/faults.md
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

from agent.chaos.agents import ChaosError
from agent.chaos.config import ExperimentNames, ExperimentPace
from agent.chaos.context import Services
from agent.chaos.experiment import Experiment, ExperimentSize, plan_faults, run_experiment
from agent.chaos.faults import FAULTS, Fault
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
    kinds = [FAULTS[name] for name in given.only] or list(FAULTS.values())
    order = plan_faults(kinds, given.faults, Random(given.seed))
    rounds = [order[low : low + given.per_round] for low in range(0, len(order), given.per_round)]
    campaign = Campaign(seed=given.seed, wanted=given.faults, member_timeout_s=MEMBER_TIMEOUT_S)
    broker = KafkaBroker(properties=BROKER)
    try:
        broker.start()
        for number, faults in enumerate(rounds):
            campaign.seconds = time.monotonic() - campaign.begun_s
            if given.minutes and campaign.seconds > 60 * given.minutes:
                print("stopped by --minutes", flush=True)
                break
            _run_round(campaign, broker, faults, given.seed + number, given.logs)
            _write(campaign, given.out, given.json)
    finally:
        broker.close()
    sys.exit(0 if campaign.same else 1)


def _run_round(campaign: Campaign, broker: KafkaBroker, faults: Sequence[Fault], seed: int, logs: Path) -> None:
    """Every other round with a Redis without persistence."""
    directory = logs / f"round-{seed}"
    with _redis(persistent=seed % 2 == 0) as redis:
        experiment = _experiment(broker, redis, directory, seed)
        try:
            result = asyncio.run(run_experiment(experiment, faults, lambda line: print(f"[{seed}] {line}", flush=True)))
        except (ChaosError, ConnectorError) as error:
            campaign.failures.append(Failure(seed, [fault.name for fault in faults], str(error)))
            print(f"[{seed}] FAILED: {error}", flush=True)
            return
    campaign.results.append(result)
    campaign.loads.append(os.getloadavg()[2])
    print(f"[{seed}] {_summary(result)}", flush=True)
    if result.same:
        shutil.rmtree(directory)


def _summary(result: ExperimentResult) -> str:
    compared = result.comparison
    return (
        f"{'same' if result.same else 'DIFFERENT'}: {result.expected} expected, {len(compared.missing)} missing, "
        f"{len(compared.extra)} extra, {len(compared.different)} different, {result.repeated} repeated"
    )


@contextmanager
def _redis(*, persistent: bool) -> Iterator[RedisServer]:
    server = RedisServer("redis", RedisOptions(persistent=persistent))
    try:
        server.start()
        yield server
    finally:
        server.close()


def _experiment(broker: KafkaBroker, redis: RedisServer, directory: Path, seed: int) -> Experiment:
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
        as_json.write_text(json.dumps([result.as_json() for result in campaign.results], indent=2))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=100, help="how many")
    parser.add_argument("--per-round", type=int, default=10, help="faults between two comparisons")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", action="append", default=[], choices=sorted(FAULTS), help="only this fault; repeatable"
    )
    parser.add_argument("--minutes", type=float, help="start no further round after this time")
    parser.add_argument("--out", type=Path, help="file for the report")
    parser.add_argument("--json", type=Path, help="file for all results")
    parser.add_argument(
        "--logs", type=Path, default=Path(tempfile.mkdtemp(prefix="chaos-")), help="logs of failed rounds"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
