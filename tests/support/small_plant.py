"""A pipeline over an in-memory log whose judge never asks a model: every window is `unknown`, for lack of coverage."""

from typing import Any, cast

import orjson

from agent.events.emission import Emission
from agent.events.evidence import EvidencePolicy
from agent.events.group import Publishing, Watched
from agent.events.payloads import ModelName
from agent.models.classifier import WindowClassifier
from agent.runtime.pipeline import Pipeline, PipelineLimits
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


def watched() -> Watched:
    judge = WindowClassifier(cast("Any", None), ("a", "b"), ("p",), (FillRule(),), NEVER_ENOUGH)
    return Watched(
        name="pumps",
        channels=("p",),
        grid=Grid(PERIOD_MS * 1_000_000),
        shape=WindowShape(LENGTH, HOP),
        idle_after=LENGTH,
        rebuild_horizon=8 * LENGTH,
        max_assets=4,
        judge=judge,
        model=ModelName("none", "0", "0"),
        publishing=Publishing("test", Emission("all"), EvidencePolicy(), None),
    )


def pipeline(source: Source | None = None, **parts: Any) -> Pipeline:
    """Whatever is not given is in memory."""
    layout = GroupLayout("pumps", (ChannelField("p", "p"),), ("pump-*",))
    return Pipeline(
        source=source or MemorySource(MemoryLog([HOME])),
        store=parts.pop("store", None) or MemoryWindowStore(),
        sink=parts.pop("sink", None) or MemorySink(),
        decoder=Decoder([layout], RecordFormat(kind="wide")),
        groups={"pumps": watched()},
        pace=parts.pop("pace", None) or PipelineLimits(poll_timeout_s=0.01, checkpoint_every_s=0.05),
        **parts,
    )


def feed(log: MemoryLog, steps: range, asset: str = "pump-1") -> None:
    """One good record per step."""
    for step in steps:
        at = START_MS + step * PERIOD_MS
        log.append(HOME, orjson.dumps({"ts": at, "p": 1.0}), key=asset.encode(), timestamp_ms=at)
