"""Compiled functions work wherever the package is installed."""

import pytest
from numba.core.caching import _CacheLocator

from anchormoe.simd import jit


def double(number: int) -> int:
    return 2 * number


def test_without_a_writable_cache_functions_are_compiled_at_every_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(locator: object) -> None:
        raise OSError("read-only file system")

    monkeypatch.setattr(_CacheLocator, "ensure_cache_path", refuse)
    assert jit.compiled(double)(21) == 42
    assert jit.inlined(double)(4) == 8
