"""Compiles functions to machine code with numba."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

Array = Any
"""An array inside compiled code: docstrings give the shapes, numba infers the types."""


def compiled(function: Function) -> Function:
    """Without fast-math: the order of additions is part of the result."""
    return _compiled(function)


def inlined(function: Function) -> Function:
    """For small functions called often: passing an array to a compiled function counts its references twice."""
    return _compiled(function, inline="always")


def _compiled(function: Function, **options: str) -> Function:
    import numba

    options |= {"error_model": "numpy"}
    try:
        return cast(Function, numba.njit(cache=True, nogil=True, **options)(function))
    except RuntimeError:
        # No writable cache: a read-only installation without a home directory or NUMBA_CACHE_DIR. The code is then
        # compiled again at every start.
        return cast(Function, numba.njit(nogil=True, **options)(function))
