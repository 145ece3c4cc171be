"""Answers about one asset, one event, the health of the work. Pure."""

from typing import Any, Protocol

import orjson

from agent.event_types import is_normal_state
from agent.page.api import (
    AssetDetail,
    EventDetail,
    Health,
    LetterReason,
    Signals,
)
from agent.page.signals import signals_of
from agent.page.state import PageState
from agent.page.stored_event import StoredEvent
from agent.page.sums import margin_sum, score_sum


class WorkHealth(Protocol):
    """What the agent knows of its own work; the feed of topics knows none of it."""

    def facts(self) -> dict[str, Any]:
        """Fields of `Health`."""
        ...


class NoWork:
    def facts(self) -> dict[str, Any]:
        return {
            "checks": [],
            "lag": None,
            "partitions": [],
            "stages": [],
            "loop_delay_max_s": None,
            "counters": {},
        }


def asset_detail(state: PageState, asset: str) -> AssetDetail | None:
    """None for an asset that is not known."""
    row = state.fleet.row(asset)
    if row is None:
        return None
    group = state.fleet.groups[row.group]
    name = state.fleet.states[row.state] if row.state >= 0 else None
    last = state.history.last_state(asset)
    data = state.last_data(asset)
    signals = live_signals(state, asset, data)
    return AssetDetail.model_construct(
        asset=asset,
        group=group,
        now_ms=state.clock_ms(),
        feed=state.feed(),
        index=state.fleet.index[asset],
        state=name,
        normal=name is not None and is_normal_state(name),
        p=None if row.p < 0 else row.p / 100,
        since_ms=row.since_ms or None,
        end_ms=row.end_ms or None,
        abstention=(data or {}).get("abstention") if name == "unknown" else None,
        missing_channels=_missing(data),
        last=None if last is None else event_detail(state, last),
        signals=signals,
        no_signals="" if signals is not None else state.no_signals,
    )


def live_signals(state: PageState, asset: str, data: dict[str, Any] | None) -> Signals | None:
    recent = state.recent(asset)
    trace = state.traces.get(asset) if recent is None else state.traces.merge(asset, recent)
    facts = None if trace is None else state.groups.get(trace.group)
    return None if trace is None or facts is None else signals_of(facts, trace, data)


def event_detail(state: PageState, event: StoredEvent) -> EventDetail:
    data = _read(event)
    before, after = state.history.neighbours(event)
    return EventDetail.model_construct(
        head=event.head,
        data=data,
        sum=score_sum(data),
        why_not_sum=margin_sum(data),
        readable=event.readable,
        problem=event.problem,
        signals=None,
        previous=before,
        next=after,
    )


def health(state: PageState, work: WorkHealth, clients: int) -> Health:
    letters = [
        LetterReason.model_construct(reason=reason, count=count, example=state.letter_examples.get(reason, ""))
        for reason, count in sorted(state.letter_counts.items())
    ]
    facts = {"letters": letters, **work.facts()}
    if facts["lag"] is None:
        facts["lag"] = state.lag()
    return Health.model_construct(
        now_ms=state.clock_ms(),
        feed=state.feed(),
        reach=state.history.reach(),
        warning=state.warning,
        models=list(state.models.values()),
        clients=clients,
        **facts,
    )


def _read(event: StoredEvent) -> dict[str, Any]:
    try:
        data = orjson.loads(event.raw)
    except orjson.JSONDecodeError:
        return {}
    return data if isinstance(data, dict) else {"value": data}


def _missing(data: dict[str, Any] | None) -> list[str]:
    window = (data or {}).get("window")
    found = window.get("missing_channels", []) if isinstance(window, dict) else []
    return [str(name) for name in found] if isinstance(found, list) else []
