"""The result of an experiment: recovery times per fault, and which events or latest states differ. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from agent.event_types import STATE
from agent.offline.compare import Comparison


@dataclass(frozen=True, slots=True)
class FaultOutcome:
    """`recovered_s`: until everything was committed that had been written before the fault was over.

    It counts from the moment the failed part was back, or from the fault itself where nothing had to come back.
    `load_average` is that of the machine when it was over.
    """

    fault: str
    recovered_s: float
    goal_s: float
    note: str = ""
    load_average: float = 0.0

    @property
    def in_time(self) -> bool:
        return self.recovered_s <= self.goal_s

    def as_json(self) -> dict[str, Any]:
        rounded = {"recovered_s": round(self.recovered_s, 2), "load_average": round(self.load_average, 1)}
        return asdict(self) | rounded


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """`repeated` events were published more than once with the same id and bytes, `conflicts` with other bytes.

    `wrong_states` are assets whose latest state differs from their last event. `excused` events lie next to a break of
    the log and say so; `unreported` are breaks that no agent has reported (`agent.chaos.judge`).
    """

    namespace: str
    seed: int
    seconds: float
    records: int
    outcomes: Sequence[FaultOutcome]
    comparison: Comparison
    published: int
    repeated: int
    conflicts: int
    history_lost: int
    wrong_states: Sequence[str] = ()
    segments: int = 1
    excused: int = 0
    unreported: Sequence[str] = ()

    @property
    def expected(self) -> int:
        return self.comparison.equal + len(self.comparison.different) + len(self.comparison.missing)

    @property
    def same(self) -> bool:
        return self.comparison.same and not (self.conflicts or self.wrong_states or self.unreported)

    def as_json(self) -> dict[str, Any]:
        return {
            "same": self.same,
            "namespace": self.namespace,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "records": self.records,
            "expected": self.expected,
            "published": self.published,
            "repeated": self.repeated,
            "conflicts": self.conflicts,
            "history_lost": self.history_lost,
            "wrong_states": list(self.wrong_states),
            "segments": self.segments,
            "excused": self.excused,
            "unreported": list(self.unreported),
            "comparison": self.comparison.as_json(),
            "faults": [each.as_json() for each in self.outcomes],
        }


def wrong_states(events: Iterable[bytes], states: Iterable[bytes]) -> list[str]:
    """Assets whose latest state is missing, or older than or different from their last event.

    Of several states of an asset the one with the greatest window end counts, as for every reader.
    """
    by_events = _latest((event["asset"], event["window"]["end"], event["state"]) for event in _state_events(events))
    by_states = _latest((state["asset"], state["end"], state["state"]) for state in map(orjson.loads, states))
    return sorted(asset for asset, event in by_events.items() if not _matches(by_states.get(asset), event))


def _state_events(events: Iterable[bytes]) -> Iterable[Mapping[str, Any]]:
    return (event for event in map(orjson.loads, events) if event["type"] == STATE)


def _latest(states: Iterable[tuple[str, str, str]]) -> dict[str, tuple[str, str]]:
    latest: dict[str, tuple[str, str]] = {}
    for asset, end, state in states:
        if asset not in latest or _sortable(end) >= _sortable(latest[asset][0]):
            latest[asset] = (end, state)
    return latest


def _sortable(end: str) -> tuple[str, str]:
    """The fraction of a published time has only as many digits as it needs."""
    seconds, _, fraction = end.removesuffix("Z").partition(".")
    return seconds, fraction.ljust(9, "0")


def _matches(state: tuple[str, str] | None, event: tuple[str, str]) -> bool:
    """A state may be newer than the last event: it is published again from time to time, also without a change."""
    return state is not None and state[1] == event[1] and _sortable(state[0]) >= _sortable(event[0])
