"""Compilation by numba, where it is installed; without it the reference path gives the same results."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

AVAILABLE = find_spec("numba") is not None


def compiled(function: Function) -> Function:
    """The function as machine code. No fast-math: the order of additions is part of the result."""
    import numba

    return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: Function) -> Function:
    """For what compiled functions call many times: passing an array to a function counts its references, twice."""
    import numba

    return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")(function))
