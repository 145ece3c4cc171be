"""A pipeline over an in-memory log that never asks a model: every window is `unknown`, for lack of coverage."""

from typing import Any

import orjson

from agent.events.emission import Emission
from agent.events.group import GroupRuntime, Publishing
from agent.events.spans import EvidencePolicy
from agent.models.classifier import ModelName, WindowClassifier
from agent.models.schedule import ActiveModel
from agent.runtime.pipeline import Endpoints, Pipeline, PipelineLimits
from agent.windows.spec import GroupSpec
from anchormoe.windows import FillRule, Grid, WindowShape
from connectors.base import Source
from connectors.decoding import Decoder
from connectors.memory import MemoryLog, MemorySink, MemorySource, MemoryWindowStore
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import Partition

HOME = Partition("sensors", 0)
PERIOD_MS = 1000
START_MS = 1_700_000_000_000
NEVER_ENOUGH = 1.1
LENGTH, HOP = 8, 4


def group() -> GroupRuntime:
    spec = GroupSpec(
        name="pumps",
        channels=("p",),
        grid=Grid(PERIOD_MS * 1_000_000),
        shape=WindowShape(LENGTH, HOP),
        idle_after_steps=LENGTH,
        rebuild_horizon_steps=8 * LENGTH,
        max_assets=4,
    )
    never_asked: Any = object()
    classifier = WindowClassifier(never_asked, ("a", "b"), ("p",), (FillRule(),), NEVER_ENOUGH)
    publishing = Publishing("test", Emission("all"), EvidencePolicy())
    return GroupRuntime(spec, ActiveModel(classifier, ModelName("none", "0", "0")), publishing)


def pipeline(source: Source | None = None, **parts: Any) -> Pipeline:
    """Whatever is not given is in memory."""
    layout = GroupLayout("pumps", (ChannelField("p", "p"),), ("pump-*",))
    endpoints = Endpoints(
        source or MemorySource(MemoryLog([HOME])),
        parts.pop("store", None) or MemoryWindowStore(),
        parts.pop("sink", None) or MemorySink(),
    )
    return Pipeline(
        endpoints,
        Decoder([layout], RecordFormat(kind="wide")),
        {"pumps": group()},
        parts.pop("limits", None) or PipelineLimits(poll_timeout_s=0.01, checkpoint_every_s=0.05),
        **parts,
    )


def feed(log: MemoryLog, steps: range, asset: str = "pump-1") -> None:
    """One good record per step."""
    for step in steps:
        at = START_MS + step * PERIOD_MS
        log.append(HOME, orjson.dumps({"ts": at, "p": 1.0}), key=asset.encode(), timestamp_ms=at)
