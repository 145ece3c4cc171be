"""Everything the agent publishes, made by its own functions from a short stream with a gap and a lost channel."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from agent.dead_letters.letter import DeadLetter
from agent.events.assemble import OutgoingEvent, assess, idle_events
from agent.events.emission import Emission
from agent.events.evidence import EvidencePolicy
from agent.events.group import Publishing, Watched
from agent.events.payloads import ModelName, event_message, model_refused_event, state_message
from agent.models.classifier import WindowClassifier
from agent.windows.group import GroupWindows
from agent.windows.ingest import Ingested, ingest
from anchormoe.predictor import Predictor
from anchormoe.windows import FillRule, Grid, WindowShape
from connectors.decoding import Readings
from connectors.records import Batch, Message, Partition, Record
from tests.support.linear_source import CHANNELS, STEPS, linear_model

PARTITION = Partition("sensors", 3)
ASSETS = ("pump-1", "pümp-2")  # names need not be ASCII
GAP_FROM, GAP_TO, LAST = 150, 230, 330
Q_LOST = range(60, 110)


@dataclass(frozen=True, slots=True)
class Samples:
    sightings: list[OutgoingEvent]
    events: list[Message]
    states: list[Message]
    dead_letters: list[DeadLetter]


@cache
def samples() -> Samples:
    intake = _intake()
    silent = idle_events(intake.windows, PARTITION, now_s=1e6, offset=1)
    sightings = [*assess(intake, PARTITION).sightings, *silent, _refusal(intake.windows.watched)]
    standing = {one.event.asset: (one.origin, one.standing) for one in sightings if one.standing}
    return Samples(
        sightings,
        [event_message(one.event, one.origin.namespace) for one in sightings],
        [state_message(origin, last) for origin, last in standing.values() if last],
        intake.refused,
    )


def _intake() -> Ingested:
    """The last records of each asset lie far behind: too late, and so many that its clock must have fallen back."""
    index = np.array([*range(GAP_FROM), *range(GAP_TO, LAST), *range(5, 5 + STEPS)])
    n = len(index)
    rng = np.random.default_rng(11)
    values = rng.normal([1.0, -1.0], [4.0, 1.0], size=(len(ASSETS), n, CHANNELS)).astype(np.float32)
    values[:, np.isin(index, Q_LOST), 1] = np.nan
    watched = _watched()
    readings = Readings(
        group="pumps",
        assets=list(ASSETS),
        asset=np.repeat(np.arange(len(ASSETS)), n),
        time_ns=np.array([watched.grid.time_ns(int(at)) for at in index] * len(ASSETS), np.int64),
        values=values.reshape(-1, CHANNELS),
        record=np.arange(len(ASSETS) * n),
    )
    records = [Record(1000 + at, 1_700_000_000_000, b"key", b"{}", (("own", b"1"),)) for at in range(len(ASSETS) * n)]
    intake = ingest(GroupWindows.empty(watched, cursor=0), Batch(PARTITION, records), readings)
    intake.windows.silence.heard(intake.rows, now=0.0)
    return intake


def _refusal(watched: Watched) -> OutgoingEvent:
    origin = watched.origin(watched.name, Partition("hall-activations", 0))
    event = model_refused_event(
        origin, effective_ns=1_700_000_060_000_000_000, digest="e" * 64, bundle="new", reason="damaged", offset=4
    )
    return OutgoingEvent(event, origin, watched.channels)


def _watched() -> Watched:
    predictor = Predictor(*linear_model())
    channels, classes = ("p", "q"), ("a", "b", "c")
    return Watched(
        name="pumps",
        channels=channels,
        grid=Grid(period_ns=333_333_333, epoch_ns=1_700_000_000_000_000_000),
        shape=WindowShape(length=STEPS, hop=6),
        idle_after=STEPS,
        rebuild_horizon=8 * STEPS,
        max_assets=10,
        judge=WindowClassifier(predictor, classes, channels, (FillRule(), FillRule()), min_coverage=0.55),
        model=ModelName("demo", "1", "d" * 64),
        publishing=Publishing("hall", Emission("all"), EvidencePolicy(), predictor.channel_method),
    )
