"""Compilation by numba, where it is installed; without it the reference path gives the same results."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

Array = Any
"""An array inside compiled code: shapes are in the docstrings, types are numba's."""
AVAILABLE = find_spec("numba") is not None


def compiled(function: Function) -> Function:
    """The function as machine code. No fast-math: the order of additions is part of the result."""
    return _compiled(function)


def inlined(function: Function) -> Function:
    """For what compiled functions call many times: passing an array to a function counts its references, twice."""
    return _compiled(function, inline="always")


def _compiled(function: Function, **options: str) -> Function:
    import numba

    options |= {"error_model": "numpy"}
    try:
        return cast(Function, numba.njit(cache=True, nogil=True, **options)(function))
    except RuntimeError:
        # An installation that nobody may write to, without a home or NUMBA_CACHE_DIR: compiled again at every start.
        return cast(Function, numba.njit(nogil=True, **options)(function))
