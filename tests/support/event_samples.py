"""Everything the agent publishes, made by its own functions: a short stream with a gap, a lost and a dead channel."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from agent.dead_letters.letter import DeadLetter
from agent.events.assemble import EventAssembler
from agent.events.emission import Emission
from agent.events.group import GroupRuntime, Publishing
from agent.events.outgoing import OutgoingEvent
from agent.events.payloads import (
    event_message,
    log_replaced_event,
    lost_records_event,
    model_refused_event,
    state_message,
)
from agent.events.spans import EvidencePolicy
from agent.events.technical import idle_events
from agent.models.classifier import ModelName, WindowClassifier
from agent.models.normal_values import NormalValues
from agent.models.schedule import ActiveModel
from agent.windows.group import GroupWindows
from agent.windows.ingest import ingest
from agent.windows.spec import GroupSpec
from anchormoe.cases import Cases
from anchormoe.model.judgement import Judge
from anchormoe.model.plausibility import Plausibility
from anchormoe.predictor import Predictor
from anchormoe.profiles.examples import ExampleIndex
from anchormoe.windows import FillRule, Grid, WindowShape
from connectors.decoding import Readings
from connectors.records import Batch, Message, Partition, Record
from tests.support.expert_profiles import linear_profiles
from tests.support.linear_source import CHANNELS, STEPS, linear_model

PARTITION = Partition("sensors", 3)
ASSETS = ("pump-1", "pümp-2")  # names need not be ASCII
GAP_FROM, GAP_TO, LAST = 150, 230, 330
Q_LOST = range(60, 110)
Q_DEAD = range(250, 260)


@dataclass(frozen=True, slots=True)
class Samples:
    outgoing: list[OutgoingEvent]
    events: list[Message]
    states: list[Message]
    dead_letters: list[DeadLetter]


@cache
def samples() -> Samples:
    """The last records of each asset are far behind: too late, and so many that its clock must have gone back."""
    group = _group()
    windows = GroupWindows.empty(group.spec, cursor=0)
    batch, readings = _batch(), _readings(group)
    ingested = ingest(windows, batch, readings, now_s=0.0)
    (result,) = EventAssembler({"pumps": group}).assemble([ingested])
    idle = idle_events(group, windows, PARTITION, now_s=1e6, offset=1)
    outgoing = [*result.events, *idle, _refusal(group), *_log_changes(group)]
    states = {one.event.asset: (one.origin, one.state) for one in outgoing if one.state}
    return Samples(
        outgoing,
        [event_message(one.event, one.origin.namespace) for one in outgoing],
        [state_message(origin, last) for origin, last in states.values() if last],
        ingested.dead_letters,
    )


INDEX = np.array([*range(GAP_FROM), *range(GAP_TO, LAST), *range(5, 5 + STEPS)])


def _batch() -> Batch:
    records = [
        Record(1000 + at, 1_700_000_000_000, b"key", b"{}", (("own", b"1"),)) for at in range(len(ASSETS) * len(INDEX))
    ]
    return Batch(PARTITION, records)


def _readings(group: GroupRuntime) -> Readings:
    n = len(INDEX)
    rng = np.random.default_rng(11)
    values = rng.normal([1.0, -1.0], [4.0, 1.0], size=(len(ASSETS), n, CHANNELS)).astype(np.float32)
    values[:, np.isin(INDEX, Q_LOST), 1] = np.nan
    values[:, np.isin(INDEX, Q_DEAD), 1] = -9999
    return Readings(
        group="pumps",
        assets=list(ASSETS),
        asset=np.repeat(np.arange(len(ASSETS)), n),
        time_ns=np.array([group.spec.grid.time_ns(int(at)) for at in INDEX] * len(ASSETS), np.int64),
        values=values.reshape(-1, CHANNELS),
        record=np.arange(len(ASSETS) * n),
    )


def _refusal(group: GroupRuntime) -> OutgoingEvent:
    origin = group.origin(group.spec.name, Partition("hall-activations", 0))
    event = model_refused_event(
        origin, effective_ns=1_700_000_060_000_000_000, digest="e" * 64, bundle="new", reason="damaged", offset=4
    )
    return OutgoingEvent(event, origin, group.spec.channels)


def _log_changes(group: GroupRuntime) -> list[OutgoingEvent]:
    origin = group.origin(group.spec.name, PARTITION)
    replaced = log_replaced_event(origin, reason="recreated", position=300, first=0, end=12, time_ms=1_700_000_000_000)
    lost = lost_records_event(origin, position=12, first=40, time_ms=1_700_000_000_000)
    return [OutgoingEvent(event, origin, group.spec.channels) for event in (replaced, lost)]


def _judge() -> Judge:
    """As if TRAIN had looked like the stream."""
    train = np.random.default_rng(5).normal([[1.0], [-1.0]], [[4.0], [1.0]], size=(60, CHANNELS, STEPS))
    facts = Plausibility.fit(Cases.from_arrays(train), np.arange(60) % 3, 3)
    return Judge.for_windows(facts, STEPS)


def _group() -> GroupRuntime:
    predictor = Predictor(*linear_model())
    channels, classes = ("p", "q"), ("a", "b", "c")
    spec = GroupSpec(
        name="pumps",
        channels=channels,
        grid=Grid(period_ns=333_333_333, epoch_ns=1_700_000_000_000_000_000),
        shape=WindowShape(length=STEPS, hop=6),
        idle_after_steps=STEPS,
        rebuild_horizon_steps=8 * STEPS,
        max_assets=10,
    )
    rules = (FillRule(), FillRule())
    classifier = WindowClassifier(predictor, classes, channels, rules, min_coverage=0.55, judge=_judge())
    publishing = Publishing("hall", Emission("all", why_not="always", similar="always"), EvidencePolicy())
    name = ModelName("demo", "1", "d" * 64)
    profiles = linear_profiles()
    index = ExampleIndex(profiles, predictor.model.normalizer.scale)
    model = ActiveModel(classifier, name, ("bar", "K"), NormalValues.of(predictor), profiles.titles, index)
    return GroupRuntime(spec, model, publishing)
