"""Which injuries, in which order, from a seed. Pure."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

Kind = TypeVar("Kind")


def in_turn(kinds: Sequence[Kind], count: int, random: Random) -> list[Kind]:
    """Every kind once in random order, then every kind again, until there are `count`."""
    order: list[Kind] = []
    while len(order) < count:
        order += random.sample(list(kinds), len(kinds))
    return order[:count]
