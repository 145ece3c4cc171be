"""A rolling upgrade under load, from the version in tests/fault/releases to this one, and back again."""

import uuid
from functools import partial
from pathlib import Path

import pytest

from agent.chaos.agents import wait_until
from agent.chaos.config import ExperimentNames, ExperimentPace
from agent.chaos.context import RESTART_GOAL_S, FaultContext
from agent.chaos.experiment import Experiment, ExperimentSize, run_experiment
from agent.chaos.fault import Fault
from agent.chaos.report import FaultOutcome
from tests.conftest import RedisFactory
from tests.fault.release_fault import restart
from tests.support.agent_process import Names, write_plant
from tests.support.releases import release_source
from tests.support.services.kafka import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


async def replace_all(source: Path | None, context: FaultContext) -> FaultOutcome:
    """One after the other, each when the one before it works; records keep arriving."""
    slowest_s = 0.0
    for agent in context.fleet.kept_running:
        agent.source = source
        restarted_s = await restart(context, agent)
        assert await wait_until(lambda: agent.has_partition, 120), agent.log_tail()  # noqa: B023  # awaited here
        slowest_s = max(slowest_s, await context.wait_for_recovery(restarted_s))
    return FaultOutcome("version", slowest_s, RESTART_GOAL_S)


async def test_agents_are_replaced_by_another_version_under_load_and_back(
    kafka: Broker, redis_factory: RedisFactory, tmp_path: Path
) -> None:
    redis = redis_factory("redis", persistent=True)
    plant = write_plant(
        tmp_path / "plant.yaml",
        Names("upgrade"),
        bootstrap=kafka.bootstrap,
        redis_url=redis.url,
        emission={"policy": "all", "channels": "none"},
    )
    experiment = Experiment(
        config=plant,
        directory=tmp_path / "chaos",
        names=ExperimentNames(f"chaos-{uuid.uuid4().hex[:8]}"),
        size=ExperimentSize(agents=2, pause_s=(1.0, 2.0)),
        pace=ExperimentPace(),
        source=release_source(),
    )
    steps = [
        Fault("upgrade", "to this version", "experiment", partial(replace_all, None)),
        Fault("downgrade", "back to the earlier one", "experiment", partial(replace_all, release_source())),
    ]
    result = await run_experiment(experiment, steps, print)
    assert result.same, result.as_json()
    assert result.expected > 50
    assert result.history_lost == 0
