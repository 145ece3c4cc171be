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

    from anchormoe.simd.disk_cache import use_disk_cache

    dispatcher = numba.njit(nogil=True, error_model="numpy", **options)(function)
    use_disk_cache(dispatcher, function)
    return cast(Function, dispatcher)
