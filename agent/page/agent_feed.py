"""Shows the work of the agent in whose process the page runs; it only notes, so that the agent never waits for it."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import structlog

from agent.dead_letters.letter import DeadLetter
from agent.event_types import STATE
from agent.events.group import GroupRuntime
from agent.events.outgoing import OutgoingEvent, WindowResult
from agent.health.http import liveness, readiness
from agent.health.status import Histogram
from agent.models.schedule import ActiveModel
from agent.page import fleet
from agent.page.advice import advice_for
from agent.page.api import Check, LetterReason, ModelHealth, PartitionHealth, Rebuilt, StageTimes
from agent.page.explain import explain_window
from agent.page.letters import letter_of
from agent.page.signals import GroupFacts
from agent.page.state import PageState, WindowFacts, event_head
from agent.page.stored_event import StoredEvent
from agent.page.traces import Recent
from agent.runtime.pipeline import Pipeline
from agent.settings import LoadedPlant
from anchormoe.windows import Floats
from connectors.timestamps import NS_PER_MS, parse_iso

log = structlog.get_logger()

_MAX_NOTED = 50_000
_MAX_WINDOW_BYTES = 32 << 20
_VERSION = 2
Headline = Callable[[dict[str, Any]], str]


@dataclass(slots=True)
class _Windows:
    """The windows behind the latest states, so that they can be judged again; the oldest go first."""

    held: OrderedDict[str, Floats] = field(default_factory=OrderedDict)
    size: int = 0

    def add(self, id: str, window: Floats) -> None:
        self.held[id] = window
        self.size += window.nbytes
        while self.size > _MAX_WINDOW_BYTES:
            self.size -= self.held.popitem(last=False)[1].nbytes


class AgentFeed:
    """An observer of the pipeline. `drain` is called by the hub; `headline` says in a line what an event is."""

    def __init__(self, state: PageState, headline: Headline) -> None:
        self._state, self._headline = state, headline
        self._windows: deque[WindowResult] = deque(maxlen=_MAX_NOTED)
        self._events: deque[OutgoingEvent] = deque(maxlen=_MAX_NOTED)
        self._letters: deque[DeadLetter] = deque(maxlen=_MAX_NOTED)
        self._held = _Windows()

    def start(self) -> None:
        self._state.set_link("connecting", "the agent has not judged a window yet")

    def classified(self, result: WindowResult) -> None:
        self._windows.append(result)

    def published(self, outgoing: OutgoingEvent) -> None:
        self._events.append(outgoing)

    def rejected(self, letter: DeadLetter) -> None:
        self._letters.append(letter)

    def warned(self, message: str | None) -> None:
        self._state.warning = message or ""

    def stop(self) -> None:
        self._state.set_link("lost", "the agent stops")

    def window(self, id: str) -> Floats | None:
        return self._held.held.get(id)

    def drain(self) -> None:
        """What was noted becomes visible. An asset or event that cannot be shown does not hide the others."""
        if self._windows:
            self._state.set_link("live")
        while self._events:
            outgoing = self._events.popleft()
            self._shown(lambda outgoing=outgoing: self._add_event(outgoing))  # type: ignore[misc]
        while self._windows:
            result = self._windows.popleft()
            self._shown(lambda result=result: self._state.add_window(window_facts(result)))  # type: ignore[misc]
        while self._letters:
            letter = self._letters.popleft()
            self._shown(lambda letter=letter: self._state.add_letter(letter_of(letter.message)))  # type: ignore[misc]

    def _shown(self, add: Callable[[], None]) -> None:
        try:
            add()
        except Exception as error:  # noqa: BLE001  # a page must not stop the agent
            self._state.history.unreadable += 1
            log.warning("the page cannot show something", reason=repr(error))

    def _add_event(self, outgoing: OutgoingEvent) -> None:
        event = outgoing.event
        head = event_head(
            event.id, event.time_ns // NS_PER_MS, event.data, version=_VERSION, text=self._headline(event.data)
        )
        self._state.add_event(StoredEvent(head, orjson.dumps(event.data)))
        if outgoing.window is not None:
            self._held.add(event.id, outgoing.window)


def window_facts(result: WindowResult) -> WindowFacts:
    state = result.state
    flags = (fleet.MISSING if state.missing else 0) | (fleet.IMPLAUSIBLE if state.sensors else 0)
    return WindowFacts(
        asset=result.asset,
        group=result.group,
        state=state.state,
        since_ms=result.since_ns // NS_PER_MS,
        end_ms=result.time_ns // NS_PER_MS,
        p=result.probability,
        reason=result.reason,
        flags=flags,
    )


def recent_samples(pipeline: Pipeline) -> Callable[[str], Recent | None]:
    def recent(asset: str) -> Recent | None:
        found = pipeline.recent_samples(asset)
        return None if found is None else Recent(*found)

    return recent


def facts_of(groups: Mapping[str, GroupRuntime], plant: LoadedPlant) -> list[GroupFacts]:
    resolved = {group.name: group for group in plant.groups}
    return [
        GroupFacts.of(
            resolved[name],
            group.configured.classifier.classes,
            group.configured.units,
            group.configured.normal,
            advice_for(name, plant.settings),
        )
        for name, group in groups.items()
    ]


def models_of(groups: Mapping[str, GroupRuntime], cards: Mapping[str, str]) -> dict[str, ModelHealth]:
    return {
        name: ModelHealth(
            group=name,
            name=group.configured.name.name,
            version=group.configured.name.version,
            digest=group.configured.name.digest,
            source="configured",
            card=cards.get(name, ""),
        )
        for name, group in groups.items()
    }


class AgentHealth:
    """The agent's own counters and times, as the page shows them."""

    def __init__(self, pipeline: Pipeline, *, no_progress_s: float) -> None:
        self._pipeline, self._no_progress_s = pipeline, no_progress_s

    def facts(self) -> dict[str, Any]:
        progress, status, counters = self._pipeline.progress, self._pipeline.status, self._pipeline.counters
        checks = [*liveness(progress, status, no_progress_s=self._no_progress_s), *readiness(status)]
        lag = progress.lag or {}
        return {
            "checks": [Check(name=one.name, ok=one.ok, detail=one.detail) for one in checks],
            "lag": progress.total_lag,
            "partitions": [
                PartitionHealth(
                    partition=str(at),
                    position=one.position,
                    lag=lag.get(at),
                    newest_ms=None if one.newest_ns is None else one.newest_ns // NS_PER_MS,
                )
                for at, one in status.partitions.items()
            ],
            "stages": [stage_times(name, histogram) for name, histogram in status.stages.items()],
            "loop_delay_max_s": status.loop_delay_max.value(status.clock()),
            "counters": {
                "records": counters.records,
                "windows": counters.windows,
                "events": sum(counters.events.values()),
                "dead_letters": sum(counters.dead_letters.values()),
                "ignored": sum(counters.ignored.values()),
                "internal_errors": sum(counters.internal_errors.values()),
                "lost_records": counters.lost_records,
            },
            "letters": [
                LetterReason(reason=reason, count=count, example=counters.examples.get(reason, ""))
                for reason, count in sorted(counters.dead_letters.items())
            ],
        }


def stage_times(name: str, histogram: Histogram) -> StageTimes:
    count = sum(histogram.counts)
    mean = histogram.total / count if count else None
    return StageTimes(stage=name, count=count, mean_s=mean, p99_s=_quantile(histogram, 0.99) if count else None)


def _quantile(histogram: Histogram, share: float) -> float | None:
    """The bound of the bucket; None where it is beyond the last."""
    wanted, seen = share * sum(histogram.counts), 0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=False):
        seen += count
        if seen >= wanted:
            return bound
    return None


class AgentRebuild:
    """Judges a window again that the page still holds; another one is read from the log, where there is one."""

    def __init__(
        self,
        feed: AgentFeed,
        state: PageState,
        groups: Mapping[str, GroupRuntime],
        from_log: Callable[[StoredEvent], Awaitable[Rebuilt]] | None,
    ) -> None:
        self._feed, self._state, self._groups, self._from_log = feed, state, groups, from_log

    async def __call__(self, event: StoredEvent) -> Rebuilt:
        window = self._feed.window(event.id)
        if window is not None:
            return await asyncio.to_thread(self._explain, event, window)
        if event.type != STATE:
            return cannot(event, "only states have a window")
        if self._from_log is not None:
            return await self._from_log(event)
        return cannot(event, "its samples are not in memory any more")

    def _explain(self, event: StoredEvent, window: Floats) -> Rebuilt:
        data = orjson.loads(event.raw)
        model = self._model(data)
        if model is None:
            return cannot(event, "the bundle that spoke is not active any more")
        facts = self._state.groups[data["group"]]
        return explain_window(event.id, data, window, facts=facts, classifier=model.classifier, source="memory")

    def _model(self, data: dict[str, Any]) -> ActiveModel | None:
        group, digest = self._groups[data["group"]], data["model"]["digest"]
        index = (parse_iso(data["window"]["end"]) - group.spec.grid.epoch_ns) // group.spec.grid.period_ns
        active = group.active_models(np.array([index]))
        return next((one for one in (group.configured, *active) if one.name.digest == digest), None)


def cannot(event: StoredEvent, reason: str) -> Rebuilt:
    return Rebuilt(event=event.id, source="log", identical=None, reason=reason, difference=None)
