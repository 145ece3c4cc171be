"""Makes a failing case small by delta debugging (Zeller and Hildebrandt's ddmin). Pure but for the clock."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.fuzz.cases import Input

T = TypeVar("T")


class Budget:
    """Ends the search after so many tries or seconds; what was found by then is the answer."""

    def __init__(self, tries: int, seconds: float) -> None:
        self._tries, self._until_s = tries, time.monotonic() + seconds

    def spend(self) -> bool:
        self._tries -= 1
        return self._tries >= 0 and time.monotonic() < self._until_s


def ddmin(items: Sequence[T], fails: Callable[[Sequence[T]], bool], budget: Budget) -> Sequence[T]:
    """A subsequence that still fails and, within the budget, from which nothing can be left out."""
    pieces = 2
    while len(items) >= 1 and pieces <= 2 * len(items):
        size = -(-len(items) // pieces)
        for low in range(0, len(items), max(size, 1)):
            if not budget.spend():
                return items
            rest = items[:low] + items[low + size :]  # type: ignore[operator]  # lists and bytes can be added
            if fails(rest):
                items, pieces = rest, max(pieces - 1, 2)
                break
        else:
            if size <= 1:
                return items
            pieces = min(pieces * 2, max(len(items), 2))
    return items


def shrink(
    inputs: Sequence[Input],
    fails: Callable[[Sequence[Input]], bool],
    *,
    tries: int = 500,
    seconds: float = 10.0,
) -> list[Input]:
    """Fewer inputs, then each without headers, key and time if that does not matter, then fewer bytes."""
    budget = Budget(tries, seconds)
    kept = list(ddmin(list(inputs), fails, budget))
    for at in range(len(kept)):
        kept = _plainer(kept, at, fails, budget)
        kept = _shorter(kept, at, fails, budget)
    return kept


def _plainer(inputs: list[Input], at: int, fails: Callable[[Sequence[Input]], bool], budget: Budget) -> list[Input]:
    for change in ({"headers": ()}, {"timestamp": -1}, {"key": b"pump-1"}, {"value": None}, {"place": ""}):
        plain = replace(inputs[at], **change)
        tried = [*inputs[:at], plain, *inputs[at + 1 :]]
        if plain != inputs[at] and budget.spend() and fails(tried):
            inputs = tried
    return inputs


def _shorter(inputs: list[Input], at: int, fails: Callable[[Sequence[Input]], bool], budget: Budget) -> list[Input]:
    def put(value: Sequence[int]) -> list[Input]:
        return [*inputs[:at], replace(inputs[at], value=bytes(value)), *inputs[at + 1 :]]

    value = inputs[at].value
    return inputs if not value else put(ddmin(value, lambda part: fails(put(part)), budget))
