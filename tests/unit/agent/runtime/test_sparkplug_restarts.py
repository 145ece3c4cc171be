"""An agent that reads Sparkplug may stop anywhere: with or without its store it says the same as one that never did."""

import asyncio

import pytest

from agent.events.emission import Emission
from agent.events.group import GroupRuntime, Publishing
from agent.events.spans import EvidencePolicy
from agent.models.classifier import ModelName, WindowClassifier
from agent.models.normal_values import NormalValues
from agent.models.schedule import ActiveModel
from agent.runtime.pipeline import Endpoints, Pipeline, PipelineLimits
from agent.windows.commit_metadata import CommitMetadata
from agent.windows.spec import GroupSpec
from anchormoe import Predictor
from anchormoe.windows import FillRule, Grid, WindowShape
from connectors.decoding import Decoder
from connectors.memory import MemoryLog, MemorySink, MemorySource, MemoryWindowStore
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import DEAD_LETTERS, EVENTS, Partition
from tests.support.linear_source import STEPS, linear_model
from tests.support.sparkplug_records import T0, metric, payload

HOME = Partition("sparkplug", 0)
NAMES = ("flow", "pressure")
STEP_MS = 1_000
LAYOUT = GroupLayout("pumps", tuple(ChannelField(name, name) for name in NAMES), ("n/*",))
SAMPLES = 6 * STEPS


def write_log(samples: int = SAMPLES) -> MemoryLog:
    """One birth at the beginning, another with other aliases after two thirds; a device's death in between."""
    log = MemoryLog([HOME])
    birth_at, death_at = 2 * samples // 3, samples // 2
    for step in range(samples):
        at = T0 + step * STEP_MS
        if step in (0, birth_at):
            aliases = (1, 2) if step == 0 else (2, 1)
            named = [metric(name, 1.0, alias=alias) for name, alias in zip(NAMES, aliases, strict=True)]
            _send(log, b"NBIRTH", payload(metric("bdSeq", step, kind=4), at_ms=at), at, device=False)
            _send(log, b"DBIRTH", payload(*named, at_ms=at), at)
        if step == death_at:
            _send(log, b"DDEATH", payload(at_ms=at), at)
        if step < death_at or step >= birth_at:
            flow, other = 5.0 * (step // 20 % 2), 2.0
            first, second = (flow, other) if step < birth_at else (other, flow)
            _send(log, b"DDATA", payload(metric(value=first, alias=1), metric(value=second, alias=2), at_ms=at), at)
    return log


def _send(log: MemoryLog, kind: bytes, value: bytes, at_ms: int, *, device: bool = True) -> None:
    key = b"spBv1.0/n/%b/edge" % kind + (b"/pump-1" if device else b"")
    log.append(HOME, value, key=key, timestamp_ms=at_ms)


def make_pipeline(log: MemoryLog, sink: MemorySink, store: MemoryWindowStore) -> Pipeline:
    config, model = linear_model()
    spec = GroupSpec(
        name="pumps",
        channels=NAMES,
        grid=Grid(STEP_MS * 1_000_000),
        shape=WindowShape(length=STEPS, hop=4, lateness=0),
        idle_after_steps=10**6,
        rebuild_horizon_steps=4 * STEPS,
        max_assets=8,
    )
    predictor = Predictor(config, model)
    classifier = WindowClassifier(predictor, config.classes, NAMES, (FillRule(), FillRule()), 0.3)
    active = ActiveModel(classifier, ModelName("linear", "1", "d" * 64), config.units, NormalValues.of(predictor))
    group = GroupRuntime(spec, active, Publishing("test", Emission("all"), EvidencePolicy()))
    decoder = Decoder([LAYOUT], RecordFormat(kind="sparkplug"))
    limits = PipelineLimits(max_records=7, poll_timeout_s=0.01, checkpoint_every_s=1e9)
    return Pipeline(Endpoints(MemorySource(log, bounded=True), store, sink), decoder, {"pumps": group}, limits)


def said(sink: MemorySink) -> dict[bytes, bytes]:
    """Events by id; equal ones may come twice."""
    found: dict[bytes, bytes] = {}
    for message in sink.of(EVENTS):
        id, value = dict(message.headers)["ce_id"], message.value or b""
        assert found.setdefault(id, value) == value
    return found


async def in_one_go(log: MemoryLog) -> MemorySink:
    sink = MemorySink()
    await make_pipeline(log, sink, MemoryWindowStore()).run(asyncio.Event())
    return sink


@pytest.mark.parametrize("store_survives", [True, False])
async def test_stopping_at_any_record_changes_nothing(*, store_survives: bool) -> None:
    whole = await in_one_go(write_log())
    assert not whole.of(DEAD_LETTERS)
    assert len({value.split(b'"state":"')[1].split(b'"')[0] for value in said(whole).values()}) > 1
    for steps in range(1, 30, 3):
        log, sink, store = write_log(), MemorySink(), MemoryWindowStore()
        first = make_pipeline(log, sink, store)
        await first.start()
        for _ in range(steps):
            await first.step()
        await first.checkpoint()
        again = make_pipeline(log, sink, store if store_survives else MemoryWindowStore())
        await again.run(asyncio.Event())
        assert not sink.of(DEAD_LETTERS)
        assert said(sink) == said(whole)
        await first.close()


async def test_a_rebuild_begins_no_later_than_the_births() -> None:
    log, sink = write_log(30 * STEPS), MemorySink()
    pipeline = make_pipeline(log, sink, MemoryWindowStore())
    await pipeline.start()
    owned = pipeline._ownership.partitions[HOME]
    while owned.position < 15 * STEPS - 10:  # before the death in the middle
        await pipeline.step()
        await pipeline.checkpoint()
    assert min(windows.rebuild_offset for windows in owned.groups.values()) > 10  # all that the windows need
    metadata = CommitMetadata.parse(owned.commit_position(owned.position).metadata)
    assert metadata is not None
    assert metadata.rebuild == 0  # the births of the node and its device are the first two records
    await pipeline.close()
    again = make_pipeline(log, sink, MemoryWindowStore())
    await again.run(asyncio.Event())
    assert not sink.of(DEAD_LETTERS)
