"""A small plant for tests: a rule instead of a model, so that every verdict can be worked out by hand."""

import asyncio
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson

from agent.events.emission import Emission
from agent.events.evidence import EvidencePolicy
from agent.events.group import NEVER_FORGET, Publishing, Watched
from agent.events.payloads import ModelName
from agent.models.classifier import WindowClassifier
from agent.runtime.pipeline import Pipeline, PipelineLimits
from anchormoe.model.prediction import Prediction
from anchormoe.windows import FillRule, Grid, WindowShape
from connectors.decoding import Decoder
from connectors.memory import MemoryLog, MemorySink, MemorySource, MemoryWindowStore
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import EVENTS, Partition

PERIOD_NS = 1_000_000_000
CLASSES = ("low", "high")
CHANNELS = ("flow", "pressure")
A, B = Partition("readings", 0), Partition("readings", 1)


class ThresholdModel:
    """`high` where the mean of the first channel is above 0; every step is a patch that adds its own value."""

    channel_method = "occlusion"
    config = SimpleNamespace(classes=CLASSES, name="threshold", version="1", digest="d" * 64)

    def predict(self, windows: np.ndarray, mask: np.ndarray) -> Prediction:
        values = np.where(mask[:, 0], windows[:, 0], 0.0).astype(np.float64)  # (B, T)
        contributions = np.stack([-values, values], axis=2)  # (B, T, Y)
        logits = contributions.sum(axis=1)
        batch, steps = values.shape
        none = np.full((batch, steps, 1), np.nan)
        label = logits.argmax(axis=1)
        return Prediction(
            logits=logits,
            probabilities=np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True),
            context=np.zeros_like(logits),
            starts=np.arange(steps),
            stops=np.arange(steps) + 1,
            contributions=contributions,
            experts=("rule",),
            expert_contributions=np.take_along_axis(contributions, label[:, None, None], axis=2),
            weight=none,
            reliability=none,
            admission=none[..., 0],
            far_share=np.zeros((batch, steps)),
            residual=np.zeros(batch),
            abstention=(None,) * batch,
            label=label,
        )

    def attribute_channels(self, window: Any, mask: Any, spans: Sequence[tuple[int, int]], label: int) -> np.ndarray:
        return np.array([[1.0, 0.0]] * len(spans))


def watched(
    *,
    policy: str = "changes",
    shape: WindowShape | None = None,
    max_assets: int = 100,
    forget_after: int = NEVER_FORGET,
) -> Watched:
    return Watched(
        name="pumps",
        channels=CHANNELS,
        grid=Grid(PERIOD_NS),
        shape=shape or WindowShape(length=4, hop=2, lateness=1),
        idle_after=20,
        rebuild_horizon=64,
        max_assets=max_assets,
        judge=WindowClassifier(ThresholdModel(), CLASSES, CHANNELS, [FillRule(), FillRule()], 0.5),  # type: ignore[arg-type]
        model=ModelName("threshold", "1", "d" * 64),
        publishing=Publishing("test", Emission(policy), EvidencePolicy(), "occlusion"),  # type: ignore[arg-type]
        forget_after=forget_after,
    )


def decoder() -> Decoder:
    fields = tuple(ChannelField(name, name) for name in CHANNELS)
    return Decoder((GroupLayout("pumps", fields, ("*",)),), RecordFormat(time_unit="s", max_clock_skew_ns=None))


def put(log: MemoryLog, asset: str, second: int, flow: float | None, *, partition: Partition = A) -> None:
    value = orjson.dumps({"ts": second, "flow": flow, "pressure": 1.0})
    log.append(partition, value, key=asset.encode(), timestamp_ms=second * 1000)


def pipeline_on(
    log: MemoryLog,
    sink: Any,
    store: Any,
    *,
    group: Watched | None = None,
    pace: PipelineLimits | None = None,
    bounded: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Pipeline:
    return Pipeline(
        source=MemorySource(log, bounded=bounded),
        store=store,
        sink=sink,
        decoder=decoder(),
        groups={"pumps": group or watched()},
        pace=pace or PipelineLimits(max_records=3, checkpoint_records=7, poll_timeout_s=0.01),
        clock=clock,
    )


def events_of(sink: MemorySink) -> dict[str, bytes]:
    """What a reader that knows ids keeps: id to bytes. Two different events under one id are a failure.

    `no_data` and `clock_back` depend on more than the log that is left: they are outside what a replay repeats.
    """
    found: dict[str, bytes] = {}
    for message in sink.of(EVENTS):
        if dict(message.headers)["ce_type"] in (
            b"anchormoe.no_data",
            b"anchormoe.clock_back",
            b"anchormoe.model_refused",
        ):
            continue
        name = dict(message.headers)["ce_id"].decode()
        assert found.setdefault(name, message.value or b"") == message.value
    return found


def filled(flows: Sequence[float | None], *, asset: str = "p1", start: int = 100) -> MemoryLog:
    """A log of one asset, a second per step."""
    log = MemoryLog([A, B])
    for step, flow in enumerate(flows):
        put(log, asset, start + step, flow)
    return log


async def run(
    log: MemoryLog, *, sink: MemorySink | None = None, store: MemoryWindowStore | None = None, **options: Any
) -> tuple[Pipeline, MemorySink]:
    """To the end of the log."""
    sink = sink or MemorySink()
    pipeline = pipeline_on(log, sink, store or MemoryWindowStore(), **options)
    await pipeline.run(asyncio.Event())
    return pipeline, sink


def data_of(sink: MemorySink, stream: str = EVENTS) -> list[dict[str, Any]]:
    return [orjson.loads(message.value) for message in sink.of(stream)]


def states_of(sink: MemorySink) -> list[tuple[str | None, str]]:
    """Before and after, of each change."""
    return [(event["previous_state"], event["state"]) for event in data_of(sink) if event["type"] == "state"]


async def started(pipeline: Pipeline) -> None:
    """With its partitions, for tests that take step by step."""
    await pipeline._sink.start()
    await pipeline._store.start()
    await pipeline._polling.join(pipeline)
