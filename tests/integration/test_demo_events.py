"""The events of the demonstration plants: small, exact over spans and channels, the same in any batch, and in words."""

from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import orjson
import pytest

from agent.contracts import ExplainedEvent
from agent.events.assemble import EventAssembler
from agent.events.emission import Emission
from agent.events.group import GroupRuntime, Publishing
from agent.events.payloads import event_message
from agent.events.spans import EvidencePolicy
from agent.models.classifier import ModelName, WindowClassifier
from agent.models.normal_values import NormalValues
from agent.models.schedule import ActiveModel
from agent.windows.ingest import DueWindow, Ingested
from agent.windows.spec import GroupSpec
from anchormoe import Predictor
from anchormoe.windows import FillRule, Grid, WindowShape, cut, on_grid
from connectors.records import Partition
from connectors.simulator.plants import KINDS, labelled_recording
from tests.support.event_sums import require_exact_sums

BUNDLES = Path(__file__).parents[2] / "configs" / "bundles"
PLACE = Partition("sensors", 0)
FORMER_BYTES = 8_000
"""Of an event of version 1 of the contract."""


def group_of(kind: str, predictor: Predictor) -> GroupRuntime:
    config = predictor.config
    assert config.period_ns is not None
    spec = GroupSpec(
        name=kind,
        channels=config.channels,
        grid=Grid(config.period_ns),
        shape=WindowShape(config.length, config.length // 4),
        idle_after_steps=config.length,
        rebuild_horizon_steps=8 * config.length,
        max_assets=4,
    )
    rules = config.fill or (FillRule(),) * len(config.channels)
    classifier = WindowClassifier(predictor, config.classes, config.channels, rules, 0.5)
    name = ModelName(config.name, config.version, config.digest)
    model = ActiveModel(classifier, name, config.units, NormalValues.of(predictor))
    return GroupRuntime(spec, model, Publishing("demo", Emission("all", why_not="always"), EvidencePolicy()))


def due_windows(kind: str, group: GroupRuntime) -> list[DueWindow]:
    """Of a simulated individual through its states, with values missing here and there."""
    time_ns, values, _, _ = labelled_recording(kind, 907, 5 * KINDS[kind].cycle_samples)
    values = np.where(np.random.default_rng(1).random(values.shape) < 0.02, np.nan, values)
    start, steps = on_grid(group.spec.grid.index(time_ns), values.astype(np.float32))
    ends, windows = cut(start, steps, group.spec.shape)
    pairs = zip(ends.tolist(), windows, strict=True)
    return [DueWindow(f"{kind}-1", end, at, window, complete=True) for at, (end, window) in enumerate(pairs)]


def published(group: GroupRuntime, batches: list[list[DueWindow]]) -> list[bytes]:
    assembler = EventAssembler({group.spec.name: group})
    results = [assembler.assemble([Ingested(group.spec.name, PLACE, due=batch)])[0] for batch in batches]
    assert not any(result.faults for result in results)
    messages = [event_message(one.event, "demo") for result in results for one in result.events]
    return [message.value or b"" for message in messages if b'"type":"state"' in (message.value or b"")]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_events_of_a_demonstration_plant_are_small_exact_and_told(kind: str) -> None:
    group = group_of(kind, Predictor.load(BUNDLES / kind, threads=1))
    windows = due_windows(kind, group)[:60]
    values = published(group, [windows])
    assert values == published(group, [[window] for window in windows])
    events: list[dict[str, Any]] = [orjson.loads(value) for value in values]
    assert len(events) == len(windows)
    assert len({event["state"] for event in events}) > 1
    assert median(map(len, values)) < FORMER_BYTES / 2
    assert max(map(len, values)) < FORMER_BYTES
    for value, event in zip(values, events, strict=True):
        ExplainedEvent.model_validate_json(value)
        require_exact_sums(event)
        assert event["text"].isprintable()
    known = [event for event in events if event["state"] != "unknown"]
    assert all("runner-up `" in event["text"] for event in known)
    for event in known:
        compared = (" against ", " than normal", *(("; as usual: ",) if event["state"] == "normal" else ()))
        assert any(words in event["text"] for words in compared), event["text"]
