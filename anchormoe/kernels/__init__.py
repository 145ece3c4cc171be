"""Kernel evidence: closed-form additive features, ridge readout, selection of blocks."""

from anchormoe.kernels.settings import KernelSettings
from anchormoe.kernels.source import KernelSource

__all__ = ["KernelSettings", "KernelSource"]
