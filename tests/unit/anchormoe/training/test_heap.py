"""Freed memory goes back where the data are large, and nothing is asked of the system where they are not."""

import ctypes

import pytest

from anchormoe.training.heap import LARGE_BYTES, trim_heap


class _Library:
    def __init__(self) -> None:
        self.trimmed: list[int] = []

    def malloc_trim(self, kept: int) -> int:
        self.trimmed.append(kept)
        return 1


def test_only_large_data_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Library()
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    trim_heap(LARGE_BYTES - 1)
    assert library.trimmed == []
    trim_heap(LARGE_BYTES)
    assert library.trimmed == [0]


def test_a_system_without_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    trim_heap(LARGE_BYTES)
    monkeypatch.setattr("sys.platform", "darwin")
    trim_heap(LARGE_BYTES)
