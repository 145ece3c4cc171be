"""Whether the last states say what the last events said. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from agent.event_types import STATE


def wrong_states(events: Iterable[bytes], states: Iterable[bytes]) -> list[str]:
    """Assets whose last state is missing, older than their last event or another one.

    Of several states of an asset the one with the greatest end counts, as for every reader.
    """
    said = _latest((event["asset"], event["window"]["end"], event["state"]) for event in _of_states(events))
    kept = _latest((state["asset"], state["end"], state["state"]) for state in map(orjson.loads, states))
    return sorted(asset for asset, event in said.items() if not _tells(kept.get(asset), event))


def _of_states(events: Iterable[bytes]) -> Iterable[Mapping[str, Any]]:
    return (event for event in map(orjson.loads, events) if event["type"] == STATE)


def _latest(found: Iterable[tuple[str, str, str]]) -> dict[str, tuple[str, str]]:
    latest: dict[str, tuple[str, str]] = {}
    for asset, end, state in found:
        if asset not in latest or _order(end) >= _order(latest[asset][0]):
            latest[asset] = (end, state)
    return latest


def _order(end: str) -> tuple[str, str]:
    """The fraction of an RFC 3339 time has as many digits as it needs."""
    seconds, _, fraction = end.removesuffix("Z").partition(".")
    return seconds, fraction.ljust(9, "0")


def _tells(state: tuple[str, str] | None, event: tuple[str, str]) -> bool:
    """A state may be newer than the last event: it is stated again now and then, also where nothing changed."""
    return state is not None and state[1] == event[1] and _order(state[0]) >= _order(event[0])
