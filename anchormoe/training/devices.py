"""Which device computes, and moving arrays to it. Only a device other than the CPU needs torch."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchormoe.errors import DataError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvhost-ctrl", "/dev/dxg", "/dev/kfd")
"""NVIDIA's driver, Jetson, Windows' subsystem for Linux, AMD's ROCm."""


def resolve_device(wanted: str, environment: Mapping[str, str] = os.environ) -> str:
    """A device that exists, by torch's name for it. Raises DataError.

    `auto` is a GPU where there is one, else the CPU. Under torchrun, `auto` and `cuda` give each process of a machine
    its own GPU.
    """
    if wanted == "cpu":
        return wanted
    if wanted != "auto" and not _is_cuda(wanted):
        raise DataError(f"device {wanted}: expected auto, cpu, cuda or cuda:N")
    if wanted == "auto" and not (_has_driver() and _is_installed("torch") and _has_cuda()):
        return "cpu"
    if wanted != "auto" and not _is_installed("torch"):
        raise DataError(f"device {wanted} needs torch, which is not installed: pip install 'anchormoe-agent[gpu]'")
    if wanted != "auto" and not _has_cuda():
        why = "the driver, or torch's CUDA build, is missing or too old; `nvidia-smi` and docs/gpu.md help"
        raise DataError(f"device {wanted}: torch finds no CUDA device here ({why}); use `cpu` or `auto` without one")
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


def _is_installed(package: str) -> bool:
    return find_spec(package) is not None


def _has_driver() -> bool:
    """Whether a GPU's driver left a device file: `auto` on a machine without one must not import torch to ask."""
    return any(Path(device).exists() for device in _DEVICE_FILES)


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()
