"""Features of a bank and the evidence of its readout, computed by numba or torch."""

from functools import lru_cache
from typing import Protocol

from anchormoe.cases import Float64
from anchormoe.kernels.bank import KernelBank, Pooled, Pooling, Readout
from anchormoe.kernels.hydra import HydraBank
from anchormoe.kernels.means import MeanBank, MeanEvaluator
from anchormoe.kernels.ppv import PPVBank
from anchormoe.kernels.quantized import QuantizedCases, differences_to_steps
from anchormoe.simd.backend import Backend, choose_backend


class BankEvaluator(Protocol):
    """A bank with its readout, prepared once per model."""

    @property
    def backend(self) -> str:
        """What computes: numba, torch or numpy."""
        ...

    def explain(self, cases: QuantizedCases) -> Pooled:
        """Features, and evidence by slot of the bank; those of differences brought to the steps they read."""
        ...


class ConvolutionEvaluator:
    """Evaluates a bank of PPV or Hydra kernels."""

    def __init__(self, bank: PPVBank | HydraBank, readout: Readout, backend: Backend, device: str = "cpu") -> None:
        self.backend = backend
        self._difference = bank.difference
        self._pooling = _prepare_pooling(bank, readout, backend, device)

    def transform(self, cases: QuantizedCases) -> Float64:
        """(B, F) features; NaN where no output counts."""
        cases = cases.differences() if self._difference else cases
        return self._pooling.pool(cases).features

    def explain(self, cases: QuantizedCases) -> Pooled:
        if not self._difference:
            return self._pooling.pool(cases)
        features, evidence = self._pooling.pool(cases.differences())
        return Pooled(features, differences_to_steps(evidence))


def build_evaluator(bank: KernelBank, readout: Readout, device: str = "cpu") -> BankEvaluator:
    """On the backend that suits the device; means are so few that they stay on the CPU."""
    if isinstance(bank, PPVBank | HydraBank):
        return ConvolutionEvaluator(bank, readout, choose_backend(device), device)
    assert isinstance(bank, MeanBank)
    return MeanEvaluator(bank, readout)


def transform(bank: KernelBank, cases: QuantizedCases) -> Float64:
    """(B, F) features of a bank, computed on the CPU; NaN where no output counts."""
    if isinstance(bank, PPVBank | HydraBank):
        return _feature_evaluator(bank, choose_backend("cpu")).transform(cases)
    assert isinstance(bank, MeanBank)
    return bank.transform(cases)


@lru_cache(maxsize=16)
def _feature_evaluator(bank: PPVBank | HydraBank, backend: Backend) -> ConvolutionEvaluator:
    """Cached, because training asks for features chunk by chunk; it has a handful of banks."""
    return ConvolutionEvaluator(bank, Readout.without_classes(bank.n_features), backend)


def _prepare_pooling(bank: PPVBank | HydraBank, readout: Readout, backend: Backend, device: str) -> Pooling:
    table = bank.readout_table(readout)
    # Imported here: each of them imports numba or torch, and only one is needed.
    if backend == "torch":
        from anchormoe.kernels.torch_backend import TorchHydra, TorchPPV

        return TorchPPV(bank, table, device) if isinstance(bank, PPVBank) else TorchHydra(bank, table, device)
    if isinstance(bank, PPVBank):
        from anchormoe.kernels.ppv_numba import NumbaPPV

        return NumbaPPV(bank, table)
    from anchormoe.kernels.hydra_numba import NumbaHydra

    return NumbaHydra(bank, table)
