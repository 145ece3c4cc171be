"""From a batch of readings to what must be published about it: windows, verdicts, events. No I/O, no clock."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent.dead_letters import ASSET_MOVED, DETAILS, LATE, TOO_MANY_ASSETS, DeadLetter, dead_letter
from agent.events import (
    Event,
    Origin,
    channel_events,
    clock_back_event,
    gap_event,
    no_data_event,
    state_event,
)
from agent.evidence import explain, strongest_patches
from agent.judgement import HISTORY_LOST, UNKNOWN, Verdict
from agent.known_rows import UNSEEN
from agent.partition import GroupWindows
from agent.standing import Standing, following, previous_of
from agent.succession import Speaker
from agent.watched import Watched
from agent.windowing import Applied, Samples, apply
from anchormoe.windows import Floats, Index, Mask
from connectors.decoding import Readings
from connectors.records import Batch, Partition

_STRANGER, _ONE_TOO_MANY = -1, -2


@dataclass(frozen=True, slots=True)
class Sighting:
    """An event, where it comes from, and for states the standing and the window (C, T) it speaks of."""

    event: Event
    origin: Origin
    channels: tuple[str, ...]
    standing: Standing | None = None
    window: Floats | None = None


@dataclass(frozen=True, slots=True)
class Glance:
    """How an asset stands after a window, published or not."""

    asset: str
    group: str
    standing: Standing
    time_ns: int
    since_ns: int
    probability: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Assessment:
    """Everything a batch says about one group, in log order."""

    sightings: list[Sighting]
    glances: list[Glance]


@dataclass(frozen=True, slots=True)
class Judged:
    """The due window at a place of the batch, who judged it and how."""

    at: int
    speaker: Speaker
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Intake:
    """What a batch did to the windows of one group: due windows and gaps, in log order, with their offsets."""

    windows: GroupWindows
    rows: Index
    applied: Applied
    offsets: Index
    refused: list[DeadLetter]
    clocks_back: list[Sighting]

    @property
    def says_something(self) -> bool:
        return bool(len(self.applied.due.row) or len(self.applied.gaps.row) or self.clocks_back)


def take_in(windows: GroupWindows, batch: Batch, readings: Readings, *, strangers: Collection[str] = ()) -> Intake:
    """Apply the readings to the rings; what is late, a stranger or beyond the asset limit becomes a dead letter.

    Readings that the restored windows already hold (below their cursor) are skipped: a redelivery is not late.
    """
    offsets = _offsets(batch)[readings.record]
    row = _rows(windows, readings, strangers)
    fresh = offsets >= windows.cursor
    use = fresh & (row >= 0)
    if windows.lossy:
        _note_first_seen(windows, readings, use)
    samples = Samples(row[use], windows.watched.grid.index(readings.time_ns[use]), readings.values[use])
    applied = apply(windows.rings, samples, idle_after=windows.watched.idle_after)
    refused = [
        *_letters(batch, readings.record[fresh & (row == _STRANGER)], ASSET_MOVED),
        *_letters(batch, readings.record[fresh & (row == _ONE_TOO_MANY)], TOO_MANY_ASSETS),
        *_letters(batch, readings.record[use][applied.late], LATE),
    ]
    clocks_back = _clock_sightings(windows, batch.partition, samples, applied, offsets[use])
    return Intake(windows, samples.row, applied, offsets[use], refused, clocks_back)


def assess(intake: Intake, partition: Partition) -> Assessment:
    """What one intake says; see `assess_together`."""
    return assess_together([(intake, partition)])[0]


def assess_together(intakes: Sequence[tuple[Intake, Partition]]) -> list[Assessment]:
    """Judge the due windows of several batches, each model asked once, and say what is to be published, batch by batch.

    Blocks while the model works: call it in a thread.
    """
    speakers = [intake.windows.watched.speakers(intake.applied.due.end) for intake, _ in intakes]
    verdicts = _verdicts([intake.applied.due.windows for intake, _ in intakes], speakers)
    return [
        _assessed(intake, partition, own_speakers, own_verdicts)
        for (intake, partition), own_speakers, own_verdicts in zip(intakes, speakers, verdicts, strict=True)
    ]


def _assessed(
    intake: Intake, partition: Partition, speakers: Sequence[Speaker], verdicts: Sequence[Verdict]
) -> Assessment:
    sightings = [*_gap_sightings(intake, partition), *intake.clocks_back]
    glances = []
    for at, verdict in enumerate(verdicts):
        judged = Judged(at, speakers[at], _unless_lost(intake, at, verdict))
        sightings += _window_sightings(intake, judged, partition)
        glances.append(_glance(intake, judged))
    return Assessment(sorted(sightings, key=_in_log_order), glances)


def _verdicts(windows: Sequence[Floats], speakers: Sequence[Sequence[Speaker]]) -> list[list[Verdict]]:
    """Each window's verdict by its own speaker's judge, who is asked once for all windows of all intakes."""
    chosen = [speaker.judge for own in speakers for speaker in own]
    each = [window for own in windows for window in own]  # of several shapes where there are several groups
    found: dict[int, Verdict] = {}
    for judge in {id(judge): judge for judge in chosen}.values():
        own = [at for at, other in enumerate(chosen) if other is judge]
        # Contiguous, as everywhere else a model is asked: in the rings a step's channels lie side by side.
        said = judge.verdicts(np.ascontiguousarray(np.stack([each[at] for at in own])))
        found.update(zip(own, said, strict=True))
    verdicts = iter([found[at] for at in range(len(chosen))])
    return [[next(verdicts) for _ in own] for own in speakers]


def _in_log_order(sighting: Sighting) -> tuple[int, int]:
    """By the record that caused it, then by event time: however the log was cut into batches."""
    return sighting.event.data["input"]["offset"], sighting.event.time_ns


def _unless_lost(intake: Intake, at: int, verdict: Verdict) -> Verdict:
    """A window that reaches into lost history is not judged by what happens to be left of it."""
    windows, due = intake.windows, intake.applied.due
    whole_from = windows.whole_from.get(windows.rings.names[int(due.row[at])])
    if whole_from is None or int(due.end[at]) - windows.rings.shape.length >= whole_from:
        return verdict
    return Verdict(verdict.classes, UNKNOWN, HISTORY_LOST, verdict.coverage, verdict.missing, None, -1)


def _window_sightings(intake: Intake, judged: Judged, partition: Partition) -> list[Sighting]:
    windows, due = intake.windows, intake.applied.due
    at, verdict = judged.at, judged.verdict
    watched = windows.watched
    asset, end = windows.rings.names[int(due.row[at])], int(due.end[at])
    previous = previous_of(windows.standings.get(asset), end, windows.rings.shape.hop)
    windows.standings[asset] = following(previous, verdict, end)
    changed = previous is None or previous.state != verdict.state
    wanted = watched.publishing.emission.wanted(changed=changed, end=end)
    if not wanted and not verdict.missing and (previous is None or not previous.missing):
        return []  # nearly always
    told = _About(watched.origin(asset, partition), previous, end, int(intake.offsets[due.sample[at]]))
    found = [
        Sighting(event, told.origin, watched.channels)
        for event in channel_events(told.origin, previous, verdict.missing, end=end, offset=told.offset)
    ]
    return [*found, _state_sighting(windows, judged, told, due.windows[at])] if wanted else found


@dataclass(frozen=True, slots=True)
class _About:
    """Which window an event speaks of, what was said before it, and the record that made it due."""

    origin: Origin
    previous: Standing | None
    end: int
    offset: int


def _state_sighting(windows: GroupWindows, judged: Judged, told: _About, window: Floats) -> Sighting:
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
    return Sighting(event, told.origin, watched.channels, windows.standings[told.origin.asset], window)


def _glance(intake: Intake, judged: Judged) -> Glance:
    watched, verdict = intake.windows.watched, judged.verdict
    asset = intake.windows.rings.names[int(intake.applied.due.row[judged.at])]
    standing = intake.windows.standings[asset]
    best = None if verdict.prediction is None else float(verdict.prediction.probabilities[verdict.at].max())
    time_ns, since_ns = watched.grid.time_ns(standing.end), watched.grid.time_ns(standing.since)
    return Glance(asset, watched.name, standing, time_ns, since_ns, best, verdict.reason)


def _evidence(watched: Watched, judged: Judged, window: Floats, end: int) -> dict[str, Any] | None:
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


def _gap_sightings(intake: Intake, partition: Partition) -> list[Sighting]:
    gaps, names, watched = intake.applied.gaps, intake.windows.rings.names, intake.windows.watched
    columns = zip(gaps.row.tolist(), gaps.last.tolist(), gaps.back.tolist(), gaps.sample.tolist(), strict=True)
    found = []
    for row, last, back, sample in columns:
        origin = watched.origin(names[row], partition)
        event = gap_event(origin, last=last, back=back, offset=int(intake.offsets[sample]))
        found.append(Sighting(event, origin, watched.channels))
    return found


def _note_first_seen(windows: GroupWindows, readings: Readings, use: Mask) -> None:
    """After lost history an asset's windows are whole from its first sample on."""
    index = windows.watched.grid.index(readings.time_ns)
    for at in np.flatnonzero(use):
        windows.whole_from.setdefault(readings.assets[readings.asset[at]], int(index[at]))


def _clock_sightings(
    windows: GroupWindows, partition: Partition, samples: Samples, applied: Applied, offsets: Index
) -> list[Sighting]:
    watched, found = windows.watched, []
    for row, place in windows.late_runs.follow(samples.row, applied.late):
        origin = watched.origin(windows.rings.names[row], partition)
        newest, sample = int(windows.rings.newest[row]), int(samples.index[place])
        event = clock_back_event(origin, newest=newest, sample=sample, offset=int(offsets[place]))
        found.append(Sighting(event, origin, watched.channels))
    return found


def silent_assets(windows: GroupWindows, partition: Partition, now_s: float, offset: int) -> list[Sighting]:
    """`no_data` for every asset that has just been silent for the group's idle time, by the wall clock."""
    watched, found = windows.watched, []
    idle_s = watched.idle_after * watched.grid.period_ns / 1e9
    for row in windows.silence.fell_silent(now_s, idle_s):
        origin = watched.origin(windows.rings.names[row], partition)
        event = no_data_event(origin, newest=int(windows.rings.newest[row]), offset=offset)
        found.append(Sighting(event, origin, watched.channels))
    return found


def _offsets(batch: Batch) -> Index:
    """Offsets mostly follow each other; only where they do not, each record is asked."""
    first, last = batch.records[0].offset, batch.records[-1].offset
    if last - first == len(batch.records) - 1:
        return np.arange(first, last + 1)
    return np.fromiter((record.offset for record in batch.records), dtype=np.int64)


def unseen_assets(windows: GroupWindows, readings: Readings) -> list[str]:
    """Those that have no row yet, each once, in log order."""
    unseen = windows.known_rows.of(readings.assets, readings.asset) == UNSEEN
    return [readings.assets[number] for number in dict.fromkeys(readings.asset[unseen].tolist())]


def _rows(windows: GroupWindows, readings: Readings, strangers: Collection[str]) -> Index:
    """The row of each reading, or why it has none. Refusals are not remembered: their reasons may pass."""
    row = windows.known_rows.of(readings.assets, readings.asset)
    unseen = np.flatnonzero(row == UNSEEN)
    numbers = readings.asset[unseen].tolist()
    found = {number: _row(windows, readings.assets[number], strangers) for number in dict.fromkeys(numbers)}
    row[unseen] = [found[number] for number in numbers]
    for number in [number for number, place in found.items() if place >= 0]:
        windows.known_rows.note(number, found[number])
    return row


def _row(windows: GroupWindows, asset: str, strangers: Collection[str]) -> int:
    if asset in strangers:
        return _STRANGER
    rings = windows.rings
    return rings.row(asset) if asset in rings.rows or len(rings) < windows.watched.max_assets else _ONE_TOO_MANY


def _letters(batch: Batch, records: Index, reason: str) -> list[DeadLetter]:
    """One letter per record, however many of its samples are concerned."""
    return [
        dead_letter(batch.records[int(at)], batch.partition, reason=reason, detail=DETAILS[reason])
        for at in np.unique(records)
    ]
