"""The plant of the bench with a real model, so that the model is what everything waits for."""

from typing import Any

from agent.events.emission import Emission, Policy
from agent.events.group import GroupRuntime, Publishing
from agent.events.spans import EvidencePolicy
from agent.models.classifier import ModelName, WindowClassifier
from agent.models.normal_values import NormalValues
from agent.models.schedule import ActiveModel
from agent.windows.spec import GroupSpec
from anchormoe.windows import FillRule, Grid, WindowShape
from tests.bench.stream.made import PERIOD_MS

_HOPS_PER_WINDOW = 32


def modelled(predictor: Any, *, policy: Policy, heartbeat: int = 0) -> GroupRuntime:
    """Short hops: fewer records per window, so that sending them does not take the processor from the agent."""
    config = predictor.config
    rules = [FillRule()] * len(config.channels)
    spec = GroupSpec(
        name="all",
        channels=config.channels,
        grid=Grid(PERIOD_MS * 1_000_000),
        shape=WindowShape(config.length, max(config.length // _HOPS_PER_WINDOW, 1), 0),
        idle_after_steps=10**6,
        rebuild_horizon_steps=8 * config.length,
        max_assets=1_000,
    )
    classifier = WindowClassifier(predictor, tuple(config.classes), config.channels, rules, 0.0)
    publishing = Publishing("bench", Emission(policy, heartbeat), EvidencePolicy())
    name = ModelName(config.name, config.version, config.digest)
    model = ActiveModel(classifier, name, config.units, NormalValues.of(predictor))
    return GroupRuntime(spec, model, publishing)
