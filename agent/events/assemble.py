"""Turns ingested batches into events: classify the due windows, follow each asset's state. No I/O, no clock.

A window whose classification or event raises is `unknown` with the reason `internal`; the fault is part of the result.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agent.events.columns import WindowView, prepare_windows
from agent.events.evidence import explain
from agent.events.fault import Fault
from agent.events.group import GroupRuntime
from agent.events.outgoing import BatchResult, OutgoingEvent, WindowResult
from agent.events.payloads import channel_events, state_event
from agent.events.scoring import Progressed, ScoredBatches, ScoredWindow, classify_batches, without_model
from agent.events.sensor_health import JudgedWindow, describe_findings, sensor_events, sensor_faults
from agent.events.similar import ComparedWindow, similar_segments
from agent.events.technical import technical_events
from agent.models.classifier import Classification
from agent.windows.asset_state import AssetState, next_state, state_one_hop_before
from agent.windows.hysteresis import Said, Tracks
from agent.windows.ingest import Ingested
from connectors.records import Partition

if TYPE_CHECKING:
    from anchormoe import Prediction


class EventAssembler:
    """Classifies windows, which needs no state, and follows each asset's state from one window to the next.

    `classify` runs on the model thread. Everything else runs on the event thread, which alone knows the states. Other
    threads hand in batches and get results; neither is changed afterwards.
    """

    def __init__(self, groups: Mapping[str, GroupRuntime]) -> None:
        self._groups = groups
        self._states: dict[tuple[Partition, str], dict[str, AssetState]] = {}

    def restore(self, partition: Partition, states: Mapping[str, Mapping[str, AssetState]]) -> None:
        """Begin a partition with these states per group."""
        self.forget(partition)
        for group, known in states.items():
            self._states[partition, group] = dict(known)

    def forget(self, partition: Partition) -> None:
        for group in self._groups:
            self._states.pop((partition, group), None)

    def classify(self, batches: Sequence[Ingested], progressed: Progressed = lambda: None) -> ScoredBatches:
        """The due windows of several batches together.

        Blocks while the model works. `progressed` is called on the way: a backlog on a slow machine takes long and is
        not stuck.
        """
        return classify_batches([(self._groups[batch.group], batch.due) for batch in batches], progressed)

    def assemble(
        self,
        batches: Sequence[Ingested],
        scored: ScoredBatches | None = None,
        progressed: Progressed = lambda: None,
    ) -> list[BatchResult]:
        """The events of batches, one after the other. `scored` is what `classify` said; None: it is asked now."""
        scored = self.classify(batches, progressed) if scored is None else scored
        return [
            self._assemble_batch(batch, _prepared(self._groups[batch.group], windows), progressed)
            for batch, windows in zip(batches, scored, strict=True)
        ]

    def _assemble_batch(self, batch: Ingested, scored: Sequence[ScoredWindow], progressed: Progressed) -> BatchResult:
        group, states = self._groups[batch.group], self._states.setdefault((batch.partition, batch.group), {})
        changes: dict[str, AssetState | None] = {}
        faults: list[Fault] = []
        events, windows, cleared = technical_events(group, batch, faults), [], deque(batch.cleared)

        def clear(upto: float) -> None:
            while cleared and cleared[0].offset <= upto:
                asset = cleared.popleft().asset
                states.pop(asset, None)
                changes[asset] = None

        for one in scored:
            clear(upto=one.window.offset)
            asset = one.window.asset
            previous = state_one_hop_before(states.get(asset), one.window.end, group.spec.shape.hop)
            told = _tell(group, batch.partition, one, previous, faults)
            states[asset] = changes[asset] = told.state
            events += told.events
            windows.append(told.result)
            progressed()
        clear(upto=math.inf)
        return BatchResult(batch.group, sorted(events, key=_log_order), windows, changes, faults)


@dataclass(frozen=True, slots=True)
class _Told:
    """A window's events and the state that it leaves behind."""

    state: AssetState
    events: list[OutgoingEvent]
    result: WindowResult


def _tell(
    group: GroupRuntime, partition: Partition, one: ScoredWindow, previous: AssetState | None, faults: list[Fault]
) -> _Told:
    """Where its events cannot be built the window is `unknown`; where not even that can be told, it has no event."""
    if one.error is not None:
        faults.append(Fault("classify", one.error, one.window.offset))
    try:
        return _tell_window(group, partition, one, previous)
    except Exception as error:  # noqa: BLE001  # the last door: see agent.runtime.last_door
        if one.error is None:
            faults.append(Fault("events", error, one.window.offset))
    unknown = replace(one, classified=without_model(one.model, one.window))
    state = _next_state(group, previous, unknown)
    try:
        return _tell_window(group, partition, unknown, previous)
    except Exception:  # noqa: BLE001  # the first one says why
        return _Told(state, [], _window_result(group, unknown, state))


def _tell_window(group: GroupRuntime, partition: Partition, one: ScoredWindow, previous: AssetState | None) -> _Told:
    state = _next_state(group, previous, one)
    events = _window_events(group, partition, one, previous, state)
    return _Told(state, events, _window_result(group, one, state))


def _next_state(group: GroupRuntime, previous: AssetState | None, one: ScoredWindow) -> AssetState:
    found, end = one.classified, one.window.end
    tracks = _tracks(group, previous, one)
    return next_state(
        previous,
        end=end,
        state=found.state if tracks is None else tracks.older.state,
        missing=found.missing,
        reason=found.reason if tracks is None else tracks.older.reason,
        sensors=sensor_faults(found.findings, group.spec.channels, end - group.spec.shape.length),
        tracks=tracks,
    )


def _tracks(group: GroupRuntime, previous: AssetState | None, one: ScoredWindow) -> Tracks | None:
    """None without hysteresis. States that were stored without tracks begin with what was said last."""
    if group.hysteresis_milli is None:
        return None
    found = one.classified
    begin = Tracks.begin(found.state, found.reason)
    if previous is None:
        return begin
    tracks = previous.tracks or Tracks.begin(previous.state, previous.reason)
    if tracks == begin:
        return tracks  # nearly always
    said = Said(found.state, found.reason, _probabilities(found))
    return tracks.after(said, window=one.window.end // group.spec.shape.hop, bound=group.hysteresis_milli)


def _probabilities(found: Classification) -> dict[str, float] | None:
    if found.prediction is None:
        return None
    return dict(zip(found.classes, found.prediction.probabilities[found.at].tolist(), strict=True))


def _log_order(outgoing: OutgoingEvent) -> tuple[int, int]:
    """By the record that caused it, then by event time: however the log was cut into batches."""
    return outgoing.event.offset, outgoing.event.time_ns


def _window_events(
    group: GroupRuntime, partition: Partition, one: ScoredWindow, previous: AssetState | None, state: AssetState
) -> list[OutgoingEvent]:
    """Changes of channels, then the state if the emission policy wants it."""
    changed = previous is None or previous.state != state.state
    emission = group.publishing.emission
    published = emission.publishes(changed=changed, end=state.end)
    odd = state.missing or state.sensors or (previous is not None and (previous.missing or previous.sensors))
    if not published and not odd:
        return []  # nearly always
    origin, channels = group.origin(one.window.asset, partition), group.spec.channels
    events = [
        OutgoingEvent(event, origin, channels)
        for event in channel_events(origin, previous, state.missing, end=state.end, offset=one.window.offset)
    ]
    if odd:
        judged = JudgedWindow(
            one.window.values, state.end, one.classified.findings, one.model.classifier.judge, one.model.name.digest
        )
        events += [
            OutgoingEvent(event, origin, channels)
            for event in sensor_events(origin, previous, judged, channels, offset=one.window.offset)
        ]
    if published:
        start = state.end - group.spec.shape.length
        event = state_event(
            origin,
            one.classified,
            state,
            offset=one.window.offset,
            previous=previous,
            model=one.model.name,
            explained=_explain(group, one, changed=changed),
            implausible=describe_findings(one.classified.findings, channels, origin, start),
        )
        events.append(OutgoingEvent(event, origin, channels, state, one.window.values))
    return events


def _window_result(group: GroupRuntime, one: ScoredWindow, state: AssetState) -> WindowResult:
    grid, found = group.spec.grid, one.classified
    best = None if found.prediction is None else float(found.prediction.probabilities[found.at].max())
    time_ns, since_ns = grid.time_ns(state.end), grid.time_ns(state.since)
    return WindowResult(one.window.asset, group.spec.name, state, time_ns, since_ns, best, state.reason)


def _prepared(group: GroupRuntime, scored: Sequence[ScoredWindow]) -> Sequence[ScoredWindow]:
    """Where every window is published, the numbers of their events are computed together, by model and prediction.

    Where that raises, each window is left to itself: the one that cannot be explained must not harm the others.
    """
    if group.publishing.emission.policy != "all":
        return scored
    found, together = list(scored), dict[int, list[int]]()
    for place, one in enumerate(scored):
        if one.classified.prediction is not None:
            together.setdefault(id(one.classified.prediction), []).append(place)
    for places in together.values():
        own = [scored[place] for place in places]
        prediction = own[0].classified.prediction
        assert prediction is not None
        try:
            views = [_view(group, one) for one in own]
            ready = prepare_windows(prediction, [one.classified.at for one in own], views, group.publishing.evidence)
        except Exception:  # noqa: BLE001, S112  # the window that raises will raise again, alone
            continue
        for place, one, window in zip(places, own, ready, strict=True):
            found[place] = ScoredWindow(one.window, one.model, one.classified, one.error, window)
    return found


def _view(group: GroupRuntime, one: ScoredWindow) -> WindowView:
    spec, start = group.spec, one.window.end - group.spec.shape.length
    values = one.model.classifier.plausible(one.window.values) if one.classified.findings else one.window.values
    return WindowView(
        values, spec.channels, one.model.units, one.model.normal, spec.grid, start, one.model.expert_names
    )


def _explain(group: GroupRuntime, one: ScoredWindow, *, changed: bool) -> dict[str, Any] | None:
    prediction, emission = one.classified.prediction, group.publishing.emission
    if prediction is None:
        return None
    explained = explain(
        prediction,
        one.classified.at,
        classes=one.classified.classes,
        view=_view(group, one) if one.prepared is None else one.prepared.view,
        policy=group.publishing.evidence,
        why_not=emission.explains_margin(changed=changed),
        prepared=one.prepared,
    )
    if one.model.examples is None or not emission.shows_similar(changed=changed):
        return explained
    return explained | {"similar": _similar(group, one, prediction, explained["evidence"]["spans"])}


def _similar(
    group: GroupRuntime, one: ScoredWindow, prediction: "Prediction", spans: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    view, index = _view(group, one), one.model.examples
    assert index is not None
    window = ComparedWindow(
        view.values, view.channels, one.classified.classes, view.grid, view.start, one.model.expert_names, view.normal
    )
    return similar_segments(spans, prediction, one.classified.at, window=window, index=index)
