"""Compares two sets of events: which are equal, missing, extra or different, and which models they come from. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from agent.event_types import CLOCK_BACK
from agent.offline.event_set import EventName

_FIELDS_SHOWN = 8
_NOT_COMPARED = frozenset({CLOCK_BACK})
"""A rebuild may not see the beginning of the run of late samples that it reports (docs/decisions/0002)."""


class Events(Protocol):
    """`agent.offline.event_set.EventSet` is one."""

    def __contains__(self, id: str) -> bool: ...
    def names(self) -> list[EventName]: ...
    def value(self, id: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Difference:
    """Same id, other content; `fields` are the first that differ."""

    name: EventName
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`missing` was replayed but not published, `extra` was published but not replayed.

    The digests are those of the bundles behind the events that are not equal. An event's id contains its bundle's
    digest, so another bundle makes every state missing on one side and extra on the other.
    """

    equal: int
    missing: Sequence[EventName]
    extra: Sequence[EventName]
    different: Sequence[Difference]
    replayed_digests: tuple[str, ...] = ()
    published_digests: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        return not (self.missing or self.extra or self.different)

    @property
    def other_models(self) -> bool:
        """Whether the events that are not equal come from different bundles."""
        return self.replayed_digests != self.published_digests

    def as_json(self) -> dict[str, Any]:
        return {
            "same": self.same,
            "equal": self.equal,
            "missing": [name.id for name in self.missing],
            "extra": [name.id for name in self.extra],
            "different": [{"id": each.name.id, "fields": list(each.fields)} for each in self.different],
            "model_digests": {"replayed": list(self.replayed_digests), "published": list(self.published_digests)},
        }


def compare(replayed: Events, published: Events, *, without_input: bool) -> Comparison:
    """Byte by byte; `without_input` when the replay read a copy of the log, where records have other positions."""
    ours, theirs = _compared_names(replayed), _compared_names(published)
    common = [name for name in ours if name.id in published]
    different = [
        Difference(name, fields)
        for name in common
        if (fields := _different_fields(name.id, replayed, published, without_input))
    ]
    missing = [name for name in ours if name.id not in published]
    extra = [name for name in theirs if name.id not in replayed]
    unequal = [each.name for each in different]
    return Comparison(
        equal=len(common) - len(different),
        missing=missing,
        extra=extra,
        different=different,
        replayed_digests=_digests(replayed, [*missing, *unequal]),
        published_digests=_digests(published, [*extra, *unequal]),
    )


def _compared_names(events: Events) -> list[EventName]:
    return [name for name in events.names() if name.type not in _NOT_COMPARED]


def _digests(events: Events, names: Iterable[EventName]) -> tuple[str, ...]:
    """Of the bundles behind some events; only states have one."""
    models = (orjson.loads(events.value(name.id)).get("model") for name in names)
    return tuple(sorted({model["digest"] for model in models if model}))


def _different_fields(id: str, replayed: Events, published: Events, without_input: bool) -> tuple[str, ...]:
    """Empty when the events are equal."""
    ours, theirs = replayed.value(id), published.value(id)
    if ours == theirs:
        return ()
    left, right = orjson.loads(ours), orjson.loads(theirs)
    if without_input:
        left, right = _without_input(left), _without_input(right)
        if orjson.dumps(left) == orjson.dumps(right):
            return ()
    return tuple(differing_fields(left, right))[:_FIELDS_SHOWN] or ("(equal values, formatted differently)",)


def _without_input(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name != "input"}


def differing_fields(left: Any, right: Any, path: str = "") -> Iterator[str]:
    """Paths like `window.coverage` or `evidence.patches[0].share`."""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in dict.fromkeys([*left, *right]):
            yield from differing_fields(left.get(name), right.get(name), f"{path}.{name}" if path else name)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for at, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from differing_fields(one, other, f"{path}[{at}]")
    elif left != right:
        yield path
