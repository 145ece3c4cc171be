"""Chooses what computes a model: numba with the vector instructions of this package, or torch."""

import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Literal

from anchormoe.errors import ModelError

Backend = Literal["numba", "torch"]

VARIABLE = "ANCHORMOE_BACKEND"
"""Environment variable: `auto` (the default), `numba` or `torch`."""
_CHOICES = ("auto", "numba", "torch")


def choose_backend(device: str, *, has_numba_code: bool = True) -> Backend:
    """numba on the CPU, where it is installed and the model has code for it; otherwise torch.

    The environment variable ANCHORMOE_BACKEND overrides the rule: `torch` never uses numba, `numba` makes a missing
    numba an error instead of a slow model. It is read here, at every call, so it applies to models loaded from now on.
    Raises ModelError on another value, and where numba is needed or installed but cannot be imported.
    """
    wanted = _wanted_backend()
    if wanted == "torch" or device != "cpu" or not has_numba_code:
        require_torch(_torch_reason(wanted, device))
        return "torch"
    if not _is_installed("numba"):
        if wanted == "numba":
            raise ModelError(
                f"{VARIABLE}=numba, but numba is not installed; install it, or set {VARIABLE} to auto or torch"
            )
        require_torch("a model without numba")
        return "torch"
    _require_numba()
    return "numba"


def require_torch(purpose: str) -> None:
    """Raises ModelError that says what to install; the plain serving installation has no torch."""
    if not _is_installed("torch"):
        raise ModelError(f"{purpose} needs torch, which is not installed: pip install 'anchormoe-agent[gpu]'")


def _torch_reason(wanted: str, device: str) -> str:
    if device != "cpu":
        return f"device {device}"
    return f"{VARIABLE}=torch" if wanted == "torch" else "this bundle (experts with admission or spectral bands)"


def _wanted_backend() -> str:
    wanted = os.environ.get(VARIABLE, "auto")
    if wanted not in _CHOICES:
        raise ModelError(f"{VARIABLE} must be one of {', '.join(_CHOICES)}, not {wanted!r}")
    return wanted


@cache
def _is_installed(package: str) -> bool:
    return find_spec(package) is not None


def _require_numba() -> None:
    """Without this, a numba that does not fit the installed numpy would fail with a bare ImportError."""
    try:
        import_module("numba")
    except ImportError as error:
        message = f"numba is installed but cannot be imported ({error}); repair it, or set {VARIABLE}=torch"
        raise ModelError(message) from error
