"""Compares what agents published with a replay, also across breaks of the log: replaced, cut, overtaken, reset. Pure.

A break divides an experiment into segments, and each is judged by itself, against a replay over what the log holds now:

1. Every event of the replay from the segment's first offset on must have been published, with the same bytes.
2. Nothing else may have been published.
3. A window that reaches back to the break may say `history_lost` instead, the one after it may not know the state
   before it, and technical events there are not compared: what they would need is gone. A window that had ended at
   the break, or ends so soon after it that no sample of the new log may be in it, may be missing. Beyond that reach
   nothing is excused.
4. The break must have been reported, by an event or a log line with the code of its kind; not that offsets were moved:
   whoever moves them knows it.
5. Where an operator has moved the offsets forwards, the records in between must not have been used.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import orjson

from agent.event_types import STATE
from agent.models.classifier import HISTORY_LOST
from agent.offline.compare import Comparison, Difference, compare
from agent.offline.event_set import EventName, EventSet

Offsets = Mapping[int, int]
"""By partition number."""


@dataclass(frozen=True, slots=True)
class Segment:
    """`events_from`: where its events begin in the events topic. `begin`: input offsets from which events are required.

    `reported_as` are the event codes of which one must appear, if there are any. `reach_until_ns`: windows
    that end up to then reach back to the break, by asset. `ended_ns`: those that end up to then had ended before it.
    `skipped` are input offsets that must not be used.
    """

    events_from: Offsets = field(default_factory=dict)
    begin: Offsets = field(default_factory=dict)
    skipped: Mapping[int, range] = field(default_factory=dict)
    ended_ns: Mapping[str, int] = field(default_factory=dict)
    reach_until_ns: Mapping[str, int] = field(default_factory=dict)
    reported_as: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """`excused` events say `history_lost`, or are technical, where their window reaches back to a break."""

    comparison: Comparison
    excused: int
    history_lost: int


def judge(replayed: EventSet, published: EventSet, segment: Segment) -> Verdict:
    found = compare(replayed, published, without_input=False)
    missing = [name for name in found.missing if _is_required(replayed, name, segment)]
    excused_ids = {name.id for name in published.names() if _is_excused(published, name, segment)}
    extra = [name for name in found.extra if name.id not in excused_ids]
    extra += [name for name in published.names() if _is_skipped(published, name, segment)]
    different = [each for each in found.different if not _is_excused_difference(each, excused_ids, segment)]
    excused = len(found.extra) + len(found.different) - len(extra) - len(different)
    history_lost = sum(_abstention(published, name) == HISTORY_LOST for name in published.names())
    compared = replace(found, missing=missing, extra=extra, different=different)
    return Verdict(compared, max(excused, 0), history_lost)


def describe(verdict: Verdict, segment: Segment, *, at_most: int = 5) -> list[str]:
    """What is wrong, one line each; empty when nothing is."""
    compared = verdict.comparison
    wrong = [f"lost: {_place(name, segment)}" for name in compared.missing]
    wrong += [f"extra: {_place(name, segment)}" for name in compared.extra]
    wrong += [f"different: {_place(each.name, segment)} {' '.join(each.fields)}" for each in compared.different]
    return [*wrong[:at_most], *([f"and {len(wrong) - at_most} more"] if len(wrong) > at_most else [])]


def _place(name: EventName, segment: Segment) -> str:
    after = ""
    if name.asset in segment.reach_until_ns:
        after = f" {(name.time_ns - segment.reach_until_ns[name.asset]) / 1e9:+.1f} s from the reach of the break"
    return f"{name.asset} {name.type} {name.id}{after}"


def merge(verdicts: Sequence[Verdict]) -> Verdict:
    """Of all segments of an experiment."""
    compared = [verdict.comparison for verdict in verdicts]
    return Verdict(
        Comparison(
            equal=sum(each.equal for each in compared),
            missing=[name for each in compared for name in each.missing],
            extra=[name for each in compared for name in each.extra],
            different=[other for each in compared for other in each.different],
            replayed_digests=_digests(each.replayed_digests for each in compared),
            published_digests=_digests(each.published_digests for each in compared),
        ),
        sum(verdict.excused for verdict in verdicts),
        sum(verdict.history_lost for verdict in verdicts),
    )


def _digests(found: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(sorted({digest for some in found for digest in some}))


def _is_required(replayed: EventSet, name: EventName, segment: Segment) -> bool:
    if name.time_ns <= segment.ended_ns.get(name.asset, 0):
        return False
    if name.type != STATE and _is_in_reach(name, segment):
        return False
    place = orjson.loads(replayed.value(name.id))["input"]
    return bool(place["offset"] >= segment.begin.get(place["partition"], 0))


def _is_skipped(published: EventSet, name: EventName, segment: Segment) -> bool:
    if not segment.skipped:
        return False
    place = orjson.loads(published.value(name.id))["input"]
    return place["offset"] in segment.skipped.get(place["partition"], range(0))


def _is_excused(published: EventSet, name: EventName, segment: Segment) -> bool:
    if not _is_in_reach(name, segment):
        return False
    return name.type != STATE or _abstention(published, name) == HISTORY_LOST


def _is_excused_difference(each: Difference, excused_ids: set[str], segment: Segment) -> bool:
    # What is told at changes: the margin, and examples, one of which is in the text.
    of_a_change = set(each.fields) <= {"previous_state", "why_not", "similar", "text"}
    return each.name.id in excused_ids or (of_a_change and _is_in_reach(each.name, segment))


def _is_in_reach(name: EventName, segment: Segment) -> bool:
    return name.time_ns <= segment.reach_until_ns.get(name.asset, 0)


def _abstention(published: EventSet, name: EventName) -> str | None:
    found = orjson.loads(published.value(name.id)).get("abstention")
    return None if found is None else str(found)
