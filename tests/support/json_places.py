"""The places of a nested value, and the value with something else at one of them."""

from copy import deepcopy
from typing import Any

Place = tuple[Any, ...]


def places(value: Any, path: Place = ()) -> list[Place]:
    """The whole first."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, below in inner for place in places(below, (*path, key)))]


def replaced(value: Any, path: Place, new: Any) -> Any:
    copy = deepcopy(value)
    inner = copy
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = new
    return copy
