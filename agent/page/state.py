"""Everything the page shows, fed by one of the feeds and read by the routes. Belongs to the event loop; no I/O."""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from agent.contracts.alarms import PresentAlarm
from agent.event_types import CLOCK_BACK, NO_DATA, STATE
from agent.page import fleet
from agent.page.api import EventHead, Feed, Letter, Link, ModelHealth
from agent.page.fleet import FleetTable
from agent.page.history import History
from agent.page.signals import GroupFacts
from agent.page.stored_event import StoredEvent
from agent.page.traces import Recent, Traces
from connectors.printable import printable

_MAX_REASON = 120
_KEPT_LETTERS = 200
_KEPT_AUDIT = 200
_KEPT_HEADS = 500
_PRIORITIES = {"low": 1, "medium": 2, "high": 3}
_UNACKNOWLEDGED = 4
_PRESENT = ("unacknowledged", "acknowledged", "returned", "latched")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the page holds at most."""

    assets: int = 10_000
    events: int = 200_000
    bytes: int = 256 << 20


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """An asset after a window; times are epoch milliseconds. `p` is None where the model was not asked."""

    asset: str
    group: str
    state: str
    since_ms: int
    end_ms: int
    p: float | None = None
    reason: str | None = None
    flags: int = 0
    previous: str | None = None
    """the state before, where the event of a change says it"""


class PageState:
    def __init__(
        self,
        groups: Sequence[GroupFacts],
        *,
        namespace: str,
        kind: str,
        bounds: Bounds | None = None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        bounds = bounds or Bounds()
        self.namespace, self.kind, self.clock_ms = namespace, kind, clock_ms
        self.groups = {group.name: group for group in groups}
        first = clock_ms() // 100  # grows from start to start, and is exact in a browser's numbers
        self.fleet = FleetTable([group.info for group in groups], first=first, limit=bounds.assets)
        self.history = History(max_events=bounds.events, max_bytes=bounds.bytes, max_assets=bounds.assets)
        self.traces = Traces()
        self.recent: Callable[[str], Recent | None] = lambda asset: None
        self.no_signals = "this feed has no samples"
        self.heads: deque[tuple[int, EventHead]] = deque(maxlen=_KEPT_HEADS)
        self.alarms: dict[str, dict[str, Any]] = {}
        self.audit: deque[tuple[int, dict[str, Any]]] = deque(maxlen=_KEPT_AUDIT)
        self.letters: deque[Letter] = deque(maxlen=_KEPT_LETTERS)
        self.letter_counts: Counter[str] = Counter()
        self.letter_examples: dict[str, str] = {}
        self.models: dict[str, ModelHealth] = {}
        self.alarms_changed = self.link_changed = first
        self.alarm_link: tuple[Link, str] = ("live", "")
        self.warning = ""
        self._link: tuple[Link, str, int] = ("connecting", "no data yet", clock_ms())
        self._heard_ms: int | None = None
        self.lag: Callable[[], int | None] = lambda: None
        self.agents_ms: Callable[[], int | None] = lambda: None

    # What feeds call ------------------------------------------------------------------------------------------------

    def set_link(self, link: Link, reason: str = "") -> None:
        if (link, reason) != self._link[:2]:
            self._link = link, reason, self.clock_ms()
            self.link_changed = self.fleet.seq + 1

    def heard(self) -> None:
        """The feed said something."""
        self._heard_ms = self.clock_ms()

    def add_window(self, window: WindowFacts) -> None:
        self.heard()
        facts = self.groups.get(window.group)
        row = self.fleet.row(window.asset)
        if facts is None:
            self.fleet.skip(window.asset)
            return
        if row is not None and window.end_ms < row.end_ms:
            return
        self.fleet.update(
            window.asset,
            window.group,
            state=self.fleet.state_index(window.state),
            p=_hundredths(window.p),
            since_ms=window.since_ms,
            end_ms=window.end_ms,
            flags=window.flags,
            reason=self._reason(window),
        )
        hop_ms = round(facts.info.hop_ms)
        start_ms = min(window.since_ms, window.end_ms) - hop_ms
        self.history.add_state(
            window.asset, window.group, window.state, start_ms=start_ms, end_ms=window.end_ms, previous=window.previous
        )

    def explain(self, asset: str, p: float | None, abstention: str | None) -> None:
        """What the event of the present state says, for a row that is newer than it but does not know why."""
        row = self.fleet.row(asset)
        if row is not None and row.p < 0 and p is not None:
            state, group = self.fleet.states[row.state], self.fleet.groups[row.group].name
            reason = self._reason(WindowFacts(asset, group, state, row.since_ms, row.end_ms, p, abstention))
            self.fleet.update(asset, group, p=_hundredths(p), reason=reason)

    def add_event(self, event: StoredEvent) -> None:
        self.heard()
        head = event.head  # before it is packed
        if not self.history.add(event):
            return
        self.heads.append((self.fleet.seq + 1, head))
        if head.type in (NO_DATA, CLOCK_BACK) and (row := self.fleet.row(head.asset)) is not None:
            bit = fleet.NO_DATA if head.type == NO_DATA else fleet.LATE
            self.fleet.update(head.asset, head.group, flags=row.flags | bit)

    def add_alarm(self, alarm: Mapping[str, Any]) -> None:
        """A present alarm, parsed; one that is normal is forgotten."""
        name, asset = str(alarm["alarm"]), str(alarm["asset"])
        if alarm["state"] == "normal":
            self.alarms.pop(name, None)
        else:
            self.alarms[name] = dict(alarm)
        self.alarms_changed = self.fleet.seq + 1
        row = self.fleet.row(asset)
        if row is not None:
            own = [_urgency(one) for one in self.alarms.values() if one["asset"] == asset]
            self.fleet.update(asset, self.fleet.groups[row.group].name, alarm=max(own, default=0))

    def remove_alarm(self, name: str) -> None:
        gone = self.alarms.get(name)
        if gone is not None:
            self.add_alarm({**gone, "state": "normal"})

    def set_alarm_link(self, link: Link, reason: str = "") -> None:
        if self.alarm_link != (link, reason):
            self.alarm_link = link, reason
            self.alarms_changed = self.fleet.seq + 1

    def add_audit(self, record: dict[str, Any]) -> None:
        self.audit.append((self.fleet.seq + 1, record))

    def add_letter(self, letter: Letter) -> None:
        self.letters.append(letter)
        self.letter_counts[letter.reason] += 1
        self.letter_examples[letter.reason] = f"{letter.topic}[{letter.partition}]@{letter.offset}: {letter.detail}"

    def add_model(self, group: str, model: Mapping[str, Any]) -> None:
        """The bundle that the latest events of a group name; the configured one stays beside it."""
        digest = str(model.get("digest", ""))
        known = [one for one in self.models.values() if one.group == group]
        if group in self.groups and digest and all(one.digest != digest for one in known):
            name, version = str(model.get("name", "")), str(model.get("version", ""))
            seen = ModelHealth(group=group, name=name, version=version, digest=digest, source="seen", card="")
            self.models[f"{group}/seen"] = seen

    # What routes ask for --------------------------------------------------------------------------------------------

    def feed(self) -> Feed:
        link, reason, since_ms = self._link
        return Feed.model_construct(
            kind=self.kind,
            link=link,
            reason=reason,
            since_ms=since_ms,
            newest_ms=self.fleet.newest_ms,
            heard_ms=self._heard_ms,
            lag=self.lag(),
            agents_ms=self.agents_ms(),
            not_shown=len(self.fleet.not_shown),
        )

    def note_trend(self) -> None:
        """Once a minute of event time."""
        newest_ms, trends = self.fleet.newest_ms, self.history.trends
        if newest_ms is not None and trends.is_due(newest_ms):
            trends.note(newest_ms, self.fleet.count_states())

    def last_data(self, asset: str) -> dict[str, Any] | None:
        """The data of the last published state, where they can be read."""
        last = self.history.last_state(asset)
        return None if last is None or not last.readable else orjson.loads(last.raw)

    def _reason(self, window: WindowFacts) -> str:
        """The abstention, or the strongest evidence of the state that still holds."""
        if window.reason:
            return printable(window.reason.replace("_", " "))[:_MAX_REASON]
        row = self.fleet.row(window.asset)
        last = self.history.last_state(window.asset)
        if last is None or last.state != window.state:
            return ""
        if row is not None and row.reason and row.since_ms == window.since_ms:
            return row.reason
        return strongest_evidence(self.last_data(window.asset))


_DIRECTIONS = {
    "above": "above normal",
    "below": "below normal",
    "rising": "rising",
    "falling": "falling",
    "wider": "varies more than normal",
    "narrower": "varies less than normal",
    "within": "by its course",  # the value is in its usual range, what it does is not
}


def strongest_evidence(data: Mapping[str, Any] | None) -> str:
    """`flow below normal 10:49:28–10:49:30`; empty where there is none."""
    evidence = (data or {}).get("evidence")
    spans = evidence.get("spans") if isinstance(evidence, Mapping) else None
    span = spans[0] if isinstance(spans, list) and spans and isinstance(spans[0], Mapping) else {}
    try:
        names = ", ".join(span["channels"]) or "several channels"
        start, end = (str(span[name]).split("T")[1][:8] for name in ("start", "end"))
    except (KeyError, IndexError, TypeError):
        return ""
    words = _direction(evidence, span["channels"])
    return printable(f"{names} {words}{start}–{end}")[:_MAX_REASON]


def _direction(evidence: Any, channels: list[str]) -> str:
    """How the one channel of a span is, against normal; empty where nothing is known or it is within its range."""
    known = evidence.get("channels")
    for one in known if isinstance(known, list) and len(channels) == 1 else ():
        if isinstance(one, Mapping) and one.get("name") == channels[0]:
            words = _DIRECTIONS.get(str(one.get("direction")), "")
            return f"{words} " if words else ""
    return ""


def _hundredths(p: float | None) -> int:
    return fleet.NOT_ASKED if p is None else min(max(round(p * 100), 0), 100)


def present_alarms(state: PageState) -> list[PresentAlarm]:
    """Most urgent first."""
    from agent.alarms.views import urgency

    return sorted(state.alarms.values(), key=urgency)  # type: ignore[arg-type]  # parsed documents


def _urgency(alarm: Mapping[str, Any]) -> int:
    if alarm["state"] not in _PRESENT:
        return 0
    return _PRIORITIES[alarm["priority"]] + (_UNACKNOWLEDGED if alarm["state"] == "unacknowledged" else 0)


def event_head(
    id: str, time_ms: int, data: Mapping[str, Any], *, version: int, text: str = "", asset: str = "", group: str = ""
) -> EventHead:
    """Of the data of any version; what is not as expected is left out, never trusted."""
    state, previous = (data.get(name) if data.get("type") == STATE else None for name in ("state", "previous_state"))
    words = data.get("text") if isinstance(data.get("text"), str) and data.get("text") else text
    return EventHead.model_construct(
        id=id,
        time_ms=time_ms,
        asset=str(data.get("asset", asset)),
        group=str(data.get("group", group)),
        type=str(data.get("type", "")),
        state=state if isinstance(state, str) else None,
        previous=previous if isinstance(previous, str) else None,
        p=_probability(data),
        text=str(words),
        version=version,
    )


def _probability(data: Mapping[str, Any]) -> float | None:
    classes, table = data.get("classes"), data.get("probabilities")
    if isinstance(classes, list) and classes and isinstance(classes[0], Mapping):
        found = classes[0].get("probability")
    else:
        found = max(table.values(), default=None) if isinstance(table, Mapping) and table else None
    return float(found) if isinstance(found, int | float) and 0 <= found <= 1 else None
