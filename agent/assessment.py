"""From a batch of readings to what must be published about it: windows, verdicts, events. No I/O, no clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent import dead_letters
from agent.dead_letters import dead_letter
from agent.events import Event, Origin, channel_events, gap_event, state_event
from agent.evidence import EvidencePolicy, explain, strongest_patches
from agent.judgement import Verdict
from agent.partition import GroupWindows
from agent.standing import Emission, following, previous_of
from agent.windowing import Applied, Samples, apply
from anchormoe.windows import Floats, Index
from connectors.decoding import Readings
from connectors.records import Batch, Message


@dataclass(frozen=True, slots=True)
class Publishing:
    """What of the verdicts leaves the house, and under which name."""

    namespace: str
    emission: Emission
    evidence: EvidencePolicy
    channel_method: str | None


@dataclass(frozen=True, slots=True)
class Sighting:
    """An event together with the window it speaks of, for the live view; technical events have no window."""

    event: Event
    window: Floats | None
    channels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Intake:
    """What a batch did to the windows of one group: due windows and gaps, in log order, with their offsets."""

    windows: GroupWindows
    applied: Applied
    offsets: Index
    refused: list[Message]


def take_in(windows: GroupWindows, batch: Batch, readings: Readings) -> Intake:
    """Apply the readings to the rings; what is late or beyond the asset limit becomes a dead letter.

    Readings that the restored windows already hold (below their cursor) are skipped: a redelivery is not late.
    """
    offsets = np.fromiter((record.offset for record in batch.records), dtype=np.int64)[readings.record]
    rows, too_many = _rows(windows, readings.assets)
    row = rows[readings.asset]
    fresh = offsets >= windows.cursor
    use = fresh & (row >= 0)
    index = windows.watched.grid.index(readings.time_ns[use])
    applied = apply(
        windows.rings, Samples(row[use], index, readings.values[use]), idle_after=windows.watched.idle_after
    )
    refused = _letters(batch, readings.record[fresh & (row < 0)], dead_letters.TOO_MANY_ASSETS, str(too_many))
    refused += _letters(
        batch, readings.record[use][applied.late], dead_letters.LATE, "behind its asset's newest sample"
    )
    return Intake(windows, applied, offsets[use], refused)


def assess(intake: Intake, owner: "Origin", publishing: Publishing) -> list[Sighting]:
    """Judge the due windows and say what is to be published. Blocks while the model works: call it in a thread."""
    due = intake.applied.due
    verdicts = intake.windows.watched.judge.verdicts(due.windows) if len(due.row) else []
    sightings: list[Sighting] = _gap_sightings(intake, owner)
    for at, verdict in enumerate(verdicts):
        sightings += _window_sightings(intake, at, verdict, owner, publishing)
    return sightings


def _window_sightings(
    intake: Intake, at: int, verdict: Verdict, owner: Origin, publishing: Publishing
) -> list[Sighting]:
    windows, due = intake.windows, intake.applied.due
    asset, end = windows.rings.names[int(due.row[at])], int(due.end[at])
    origin = _of_asset(owner, asset)
    offset = int(intake.offsets[due.sample[at]])
    previous = previous_of(windows.standings.get(asset), end, windows.rings.shape.hop)
    windows.standings[asset] = following(previous, verdict, end)
    channels = windows.watched.channels
    found = [
        Sighting(event, None, channels)
        for event in channel_events(origin, previous, verdict.missing, end=end, offset=offset)
    ]
    changed = previous is None or previous.state != verdict.state
    if publishing.emission.wanted(changed=changed, end=end):
        event = state_event(
            origin,
            verdict,
            end=end,
            offset=offset,
            previous=previous,
            model=windows.watched.model,
            evidence=_evidence(windows, verdict, due.windows[at], end, publishing),
            channel_method=publishing.channel_method,
        )
        found.append(Sighting(event, due.windows[at], channels))
    return found


def _evidence(
    windows: GroupWindows, verdict: Verdict, window: Floats, end: int, publishing: Publishing
) -> dict[str, Any] | None:
    prediction, at = verdict.prediction, verdict.at
    if prediction is None:
        return None
    label = int(prediction.label[at])
    shown = strongest_patches(
        prediction.contributions[at, :, label], prediction.context[at, label], publishing.evidence
    )
    effects = None
    if publishing.channel_method is not None and shown:
        spans = [(int(prediction.starts[patch]), int(prediction.stops[patch])) for patch in shown]
        effects = windows.watched.judge.channel_effects(window, spans, label)
    return explain(
        prediction,
        at,
        shown=shown,
        effects=effects,
        channels=windows.watched.channels,
        grid=windows.watched.grid,
        start=end - windows.rings.shape.length,
        policy=publishing.evidence,
    )


def _gap_sightings(intake: Intake, owner: Origin) -> list[Sighting]:
    gaps, names = intake.applied.gaps, intake.windows.rings.names
    columns = zip(gaps.row.tolist(), gaps.last.tolist(), gaps.back.tolist(), gaps.sample.tolist(), strict=True)
    return [
        Sighting(
            gap_event(_of_asset(owner, names[row]), last=last, back=back, offset=int(intake.offsets[sample])),
            None,
            intake.windows.watched.channels,
        )
        for row, last, back, sample in columns
    ]


def _of_asset(owner: Origin, asset: str) -> Origin:
    return Origin(owner.namespace, owner.group, owner.grid, owner.shape, asset, owner.partition)


def _rows(windows: GroupWindows, assets: Sequence[str]) -> tuple[Index, int]:
    """The row of each asset, −1 where the limit of assets is reached."""
    limit = windows.watched.max_assets
    known = windows.rings.rows
    rows = [windows.rings.row(name) if name in known or len(known) < limit else -1 for name in assets]
    return np.array(rows, dtype=np.int64), limit


def _letters(batch: Batch, records: Index, reason: str, detail: str) -> list[Message]:
    """One letter per record, however many of its samples are concerned."""
    return [
        dead_letter(batch.records[int(at)], batch.partition, reason=reason, detail=detail) for at in np.unique(records)
    ]
