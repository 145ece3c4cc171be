"""In which states an asset was, oldest first: three numbers per run, because there may be as many as events. Pure."""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

MOST_RUNS = 2_000
_CELLS = 3
_TRIMMED = 64
"""Runs that go at once when there are too many: moving all others for each new one would be slow."""


class StateRun(NamedTuple):
    start_ms: int
    end_ms: int
    state: str


class StateNames:
    """Numbers for names of states, the same for all assets."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self._names)
            self._names.append(name)
        return found

    def name(self, number: int) -> str:
        return self._names[number]


class Runs:
    """At most `MOST_RUNS`; the oldest go first."""

    __slots__ = ("_cells", "_names")

    def __init__(self, names: StateNames) -> None:
        self._names, self._cells = names, array("q")

    def __len__(self) -> int:
        return len(self._cells) // _CELLS

    def __iter__(self) -> Iterator[StateRun]:
        return (self._run(at) for at in range(0, len(self._cells), _CELLS))

    def __reversed__(self) -> Iterator[StateRun]:
        return (self._run(at) for at in range(len(self._cells) - _CELLS, -1, -_CELLS))

    @property
    def last(self) -> StateRun | None:
        return self._run(len(self._cells) - _CELLS) if self._cells else None

    def append(self, run: StateRun) -> None:
        if len(self) >= MOST_RUNS:
            del self._cells[: _TRIMMED * _CELLS]
        self._cells.extend((run.start_ms, run.end_ms, self._names.number(run.state)))

    def extend_last(self, end_ms: int) -> None:
        self._cells[-2] = end_ms

    def _run(self, at: int) -> StateRun:
        start_ms, end_ms, number = self._cells[at : at + _CELLS]
        return StateRun(start_ms, end_ms, self._names.name(number))
