"""Which device computes, and moving arrays to it. Only a device other than the CPU needs torch."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchormoe.errors import DataError

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def resolve_device(wanted: str, environment: Mapping[str, str] = os.environ) -> str:
    """A device that exists, by torch's name for it. Raises DataError.

    `auto` is a GPU where there is one, else the CPU. Under torchrun, `auto` and `cuda` give each process of a machine
    its own GPU.
    """
    if wanted == "cpu":
        return wanted
    if wanted != "auto" and not _is_cuda(wanted):
        raise DataError(f"device {wanted}: expected auto, cpu, cuda or cuda:N")
    if not _has_cuda():
        if wanted == "auto":
            return "cpu"
        raise DataError(f"device {wanted}: this machine has no CUDA device")
    if wanted.startswith("cuda:"):
        return wanted
    return f"cuda:{environment['LOCAL_RANK']}" if "LOCAL_RANK" in environment else "cuda"


def to_device(device: "torch.device | str", values: NDArray[Any]) -> "Tensor":
    """Shares memory with the array where it can; to a GPU through pinned memory, without waiting for the copy."""
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(values))
    if torch.device(device).type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def _is_cuda(wanted: str) -> bool:
    kind, colon, number = wanted.partition(":")
    return kind == "cuda" and (not colon or number.isdecimal())


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()
