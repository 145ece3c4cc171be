"""From what a batch did to the windows to what must be published: verdicts, events. No I/O, no clock."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent.events.emission import AssetState, next_state, state_one_hop_before
from agent.events.evidence import explain, strongest_patches
from agent.events.group import Watched
from agent.events.payloads import (
    Event,
    Origin,
    channel_events,
    clock_back_event,
    gap_event,
    no_data_event,
    state_event,
)
from agent.models.classifier import HISTORY_LOST, UNKNOWN, Classification
from agent.models.schedule import ActiveModel
from agent.windows.group import GroupWindows
from agent.windows.ingest import ExpiredAsset, Ingested
from anchormoe.windows import Floats
from connectors.records import Partition

_AT_ONCE = 256
"""Windows per call of a model: enough to be quick, few enough to be seen to progress."""


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """An event, where it comes from, and for states the standing and the window (C, T) it speaks of."""

    event: Event
    origin: Origin
    channels: tuple[str, ...]
    standing: AssetState | None = None
    window: Floats | None = None


@dataclass(frozen=True, slots=True)
class WindowResult:
    """How an asset stands after a window, published or not."""

    asset: str
    group: str
    standing: AssetState
    time_ns: int
    since_ns: int
    probability: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Everything a batch says about one group, in log order."""

    sightings: list[OutgoingEvent]
    glances: list[WindowResult]


@dataclass(frozen=True, slots=True)
class ScoredWindow:
    """The due window at a place of the batch, who judged it and how."""

    at: int
    speaker: ActiveModel
    verdict: Classification


def assess(intake: Ingested, partition: Partition) -> BatchResult:
    """What one intake says; see `assemble_batches`."""
    return assemble_batches([(intake, partition)])[0]


def assemble_batches(
    intakes: Sequence[tuple[Ingested, Partition]], progressed: Callable[[], None] = lambda: None
) -> list[BatchResult]:
    """Judge the due windows of several batches together and say what is to be published, batch by batch.

    Blocks while the model works: call it in a thread. `progressed` is called on the way: a backlog on a slow machine
    takes its time, and is not stuck.
    """
    speakers = [intake.windows.watched.speakers(intake.applied.due.end) for intake, _ in intakes]
    verdicts = _verdicts([intake.applied.due.windows for intake, _ in intakes], speakers, progressed)
    return [
        _assessed(intake, partition, own_speakers, own_verdicts, progressed)
        for (intake, partition), own_speakers, own_verdicts in zip(intakes, speakers, verdicts, strict=True)
    ]


def _assessed(
    intake: Ingested,
    partition: Partition,
    speakers: Sequence[ActiveModel],
    verdicts: Sequence[Classification],
    progressed: Callable[[], None],
) -> BatchResult:
    sightings = [*_gap_sightings(intake, partition), *_clock_sightings(intake, partition)]
    glances, forgotten = [], deque(intake.forgotten)
    for at, verdict in enumerate(verdicts):
        _forget(intake, forgotten, before=int(intake.offsets[intake.applied.due.sample[at]]))
        judged = ScoredWindow(at, speakers[at], _unless_lost(intake, at, verdict))
        sightings += _window_sightings(intake, judged, partition)
        progressed()
        glances.append(_glance(intake, judged))
    _forget(intake, forgotten)
    return BatchResult(sorted(sightings, key=_in_log_order), glances)


def _forget(intake: Ingested, forgotten: deque[ExpiredAsset], *, before: int | None = None) -> None:
    """The standings of those who were forgotten by this offset; in log order, as they were given."""
    while forgotten and (before is None or forgotten[0].offset <= before):
        intake.windows.standings.pop(forgotten.popleft().asset, None)


def _verdicts(
    windows: Sequence[Floats], speakers: Sequence[Sequence[ActiveModel]], progressed: Callable[[], None]
) -> list[list[Classification]]:
    """Each window's verdict by its own speaker's judge, who is asked for the windows of all intakes together."""
    chosen = [speaker.judge for own in speakers for speaker in own]
    each = [window for own in windows for window in own]  # of several shapes where there are several groups
    found: dict[int, Classification] = {}
    for judge in {id(judge): judge for judge in chosen}.values():
        own = [at for at, other in enumerate(chosen) if other is judge]
        for low in range(0, len(own), _AT_ONCE):
            some = own[low : low + _AT_ONCE]
            # Contiguous, as everywhere else a model is asked: in the rings a step's channels lie side by side.
            said = judge.verdicts(np.ascontiguousarray(np.stack([each[at] for at in some])))
            found.update(zip(some, said, strict=True))
            progressed()
    verdicts = iter([found[at] for at in range(len(chosen))])
    return [[next(verdicts) for _ in own] for own in speakers]


def _in_log_order(sighting: OutgoingEvent) -> tuple[int, int]:
    """By the record that caused it, then by event time: however the log was cut into batches."""
    return sighting.event.data["input"]["offset"], sighting.event.time_ns


def _unless_lost(intake: Ingested, at: int, verdict: Classification) -> Classification:
    """A window that reaches into lost history is not judged by what happens to be left of it."""
    windows, due = intake.windows, intake.applied.due
    whole_from = windows.whole_from.get(intake.due_assets[at])
    if whole_from is None or int(due.end[at]) - windows.rings.shape.length >= whole_from:
        return verdict
    return Classification(verdict.classes, UNKNOWN, HISTORY_LOST, verdict.coverage, verdict.missing, None, -1)


def _window_sightings(intake: Ingested, judged: ScoredWindow, partition: Partition) -> list[OutgoingEvent]:
    windows, due = intake.windows, intake.applied.due
    at, verdict = judged.at, judged.verdict
    watched = windows.watched
    asset, end = intake.due_assets[at], int(due.end[at])
    previous = state_one_hop_before(windows.standings.get(asset), end, windows.rings.shape.hop)
    windows.standings[asset] = next_state(previous, verdict, end)
    changed = previous is None or previous.state != verdict.state
    wanted = watched.publishing.emission.wanted(changed=changed, end=end)
    if not wanted and not verdict.missing and (previous is None or not previous.missing):
        return []  # nearly always
    told = _About(watched.origin(asset, partition), previous, end, int(intake.offsets[due.sample[at]]))
    found = [
        OutgoingEvent(event, told.origin, watched.channels)
        for event in channel_events(told.origin, previous, verdict.missing, end=end, offset=told.offset)
    ]
    return [*found, _state_sighting(windows, judged, told, due.windows[at])] if wanted else found


@dataclass(frozen=True, slots=True)
class _About:
    """Which window an event speaks of, what was said before it, and the record that made it due."""

    origin: Origin
    previous: AssetState | None
    end: int
    offset: int


def _state_sighting(windows: GroupWindows, judged: ScoredWindow, told: _About, window: Floats) -> OutgoingEvent:
    watched = windows.watched
    event = state_event(
        told.origin,
        judged.verdict,
        end=told.end,
        offset=told.offset,
        previous=told.previous,
        model=judged.speaker.model,
        evidence=_evidence(watched, judged, window, told.end),
        channel_method=watched.publishing.channel_method,
    )
    return OutgoingEvent(event, told.origin, watched.channels, windows.standings[told.origin.asset], window)


def _glance(intake: Ingested, judged: ScoredWindow) -> WindowResult:
    watched, verdict = intake.windows.watched, judged.verdict
    asset = intake.due_assets[judged.at]
    standing = intake.windows.standings[asset]
    best = None if verdict.prediction is None else float(verdict.prediction.probabilities[verdict.at].max())
    time_ns, since_ns = watched.grid.time_ns(standing.end), watched.grid.time_ns(standing.since)
    return WindowResult(asset, watched.name, standing, time_ns, since_ns, best, verdict.reason)


def _evidence(watched: Watched, judged: ScoredWindow, window: Floats, end: int) -> dict[str, Any] | None:
    verdict, policy = judged.verdict, watched.publishing.evidence
    prediction, at = verdict.prediction, verdict.at
    if prediction is None:
        return None
    label = int(prediction.label[at])
    shown = strongest_patches(prediction.contributions[at, :, label], prediction.context[at, label], policy)
    effects = None
    if watched.publishing.channel_method is not None and shown:
        spans = [(int(prediction.starts[patch]), int(prediction.stops[patch])) for patch in shown]
        effects = judged.speaker.judge.channel_effects(window, spans, label)
    return explain(
        prediction,
        at,
        classes=verdict.classes,
        shown=shown,
        effects=effects,
        channels=watched.channels,
        grid=watched.grid,
        start=end - watched.shape.length,
        policy=policy,
    )


def _gap_sightings(intake: Ingested, partition: Partition) -> list[OutgoingEvent]:
    gaps, watched = intake.applied.gaps, intake.windows.watched
    columns = zip(intake.gap_assets, gaps.last.tolist(), gaps.back.tolist(), gaps.sample.tolist(), strict=True)
    found = []
    for asset, last, back, sample in columns:
        origin = watched.origin(asset, partition)
        event = gap_event(origin, last=last, back=back, offset=int(intake.offsets[sample]))
        found.append(OutgoingEvent(event, origin, watched.channels))
    return found


def _clock_sightings(intake: Ingested, partition: Partition) -> list[OutgoingEvent]:
    watched, found = intake.windows.watched, []
    for back in intake.clocks_back:
        origin = watched.origin(back.asset, partition)
        event = clock_back_event(origin, newest=back.newest, sample=back.index, offset=back.offset)
        found.append(OutgoingEvent(event, origin, watched.channels))
    return found


def idle_events(windows: GroupWindows, partition: Partition, now_s: float, offset: int) -> list[OutgoingEvent]:
    """`no_data` for every asset that has just been silent for the group's idle time, by the wall clock."""
    watched, found = windows.watched, []
    idle_s = watched.idle_after * watched.grid.period_ns / 1e9
    for row in [row for row in windows.silence.fell_silent(now_s, idle_s) if windows.rings.names[row]]:
        origin = watched.origin(windows.rings.names[row], partition)
        event = no_data_event(origin, newest=int(windows.rings.newest[row]), offset=offset)
        found.append(OutgoingEvent(event, origin, watched.channels))
    return found
