"""A small plant for tests: a rule instead of a model, so that every state can be worked out by hand."""

import asyncio
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson

from agent.events.emission import Emission, Policy
from agent.events.group import GroupRuntime, Publishing
from agent.events.spans import EvidencePolicy
from agent.models.classifier import ModelName, WindowClassifier
from agent.models.schedule import ActiveModel
from agent.runtime.instruments import Instruments
from agent.runtime.pipeline import Endpoints, Pipeline, PipelineLimits
from agent.runtime.skipped_records import SkippedRecords
from agent.settings.resolve import HYSTERESIS_HOPS
from agent.windows.spec import NEVER_EXPIRE_STEPS, GroupSpec
from anchormoe.cases import Cases
from anchormoe.model.judgement import Judge
from anchormoe.model.plausibility import Plausibility
from anchormoe.model.prediction import Prediction
from anchormoe.windows import FillRule, Grid, WindowShape
from connectors.base import Source
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

    judge = None
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
            terms=((0,),),
            evidence=contributions[:, :, None],
            experts=("rule",),
            expert_evidence=np.take_along_axis(contributions, label[:, None, None], axis=2)[..., None],
            weight=none[..., None],
            reliability=none[..., None],
            admission=none[..., 0],
            far_share=np.zeros((batch, steps)),
            residual=np.zeros(batch),
            abstention=(None,) * batch,
            label=label,
        )


def strict_judge(length: int = 4) -> Judge:
    """As if TRAIN had a flow that alternates between −1 and 1, and a pressure that is always 1."""
    train = np.ones((4, 2, length))
    train[:, 0, ::2] = -1
    train[1::2, 0] *= -1
    train[:, 0] += np.linspace(-0.25, 0.25, length)  # no whole numbers
    return Judge.for_windows(Plausibility.fit(Cases.from_arrays(train), np.arange(4) % 2, 2), length)


def pumps(
    *,
    name: str = "pumps",
    policy: Policy = "changes",
    shape: WindowShape | None = None,
    max_assets: int = 100,
    expire_after_steps: int = NEVER_EXPIRE_STEPS,
    max_advance_steps: int | None = None,
    total_assets: int | None = None,
    judge: Judge | None = None,
    hysteresis_milli: int | None = None,
) -> GroupRuntime:
    spec = GroupSpec(
        name=name,
        channels=CHANNELS,
        grid=Grid(PERIOD_NS),
        shape=shape or WindowShape(length=4, hop=2, lateness=1),
        idle_after_steps=20,
        rebuild_horizon_steps=64,
        max_assets=max_assets,
        expire_after_steps=expire_after_steps,
        max_advance_steps=max_advance_steps,
        total_assets=total_assets,
        memory_hops=1 if hysteresis_milli is None else HYSTERESIS_HOPS,
    )
    model: Any = ThresholdModel()
    classifier = WindowClassifier(model, CLASSES, CHANNELS, [FillRule(), FillRule()], 0.5, judge)
    publishing = Publishing("test", Emission(policy), EvidencePolicy())
    model_name = ModelName("threshold", "1", "d" * 64)
    return GroupRuntime(spec, ActiveModel(classifier, model_name), publishing, hysteresis_milli=hysteresis_milli)


def decoder() -> Decoder:
    fields = tuple(ChannelField(name, name) for name in CHANNELS)
    return Decoder(
        (GroupLayout("pumps", fields, ("*",)),), RecordFormat(time_unit="s", max_clock_skew_ns=None, accept_resets=True)
    )


def put(log: MemoryLog, asset: str, second: int, flow: float | None, *, partition: Partition = A) -> None:
    value = orjson.dumps({"ts": second, "flow": flow, "pressure": 1.0})
    log.append(partition, value, key=asset.encode(), timestamp_ms=second * 1000)


def pipeline_on(
    log: MemoryLog,
    sink: Any,
    store: Any,
    *,
    group: GroupRuntime | None = None,
    limits: PipelineLimits | None = None,
    bounded: bool = True,
    source: Source | None = None,
    instruments: Instruments | None = None,
    clock: Callable[[], float] = time.monotonic,
    skips: SkippedRecords | None = None,
) -> Pipeline:
    return Pipeline(
        Endpoints(source or MemorySource(log, bounded=bounded), store, sink),
        decoder(),
        {"pumps": group or pumps()},
        limits or PipelineLimits(max_records=3, checkpoint_records=7, poll_timeout_s=0.01),
        instruments=instruments,
        clock=clock,
        skips=skips,
    )


def events_of(sink: MemorySink) -> dict[str, bytes]:
    """Id to bytes, as for a reader that de-duplicates. Two different events with one id are a failure.

    What depends on more than the log, such as `no_data` and `log_replaced`, is left out: a replay need not repeat it.
    """
    found: dict[str, bytes] = {}
    for message in sink.of(EVENTS):
        if dict(message.headers)["ce_type"] in (
            b"anchormoe.no_data",
            b"anchormoe.clock_back",
            b"anchormoe.model_refused",
            b"anchormoe.log_replaced",
            b"anchormoe.lost_records",
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
    return [orjson.loads(message.value or b"") for message in sink.of(stream)]


def states_of(sink: MemorySink) -> list[tuple[str | None, str]]:
    """Previous state and state of each state event."""
    return [(event["previous_state"], event["state"]) for event in data_of(sink) if event["type"] == "state"]
