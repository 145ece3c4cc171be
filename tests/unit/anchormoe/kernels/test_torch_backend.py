"""The kernel source computed by torch: what a GPU runs, and what runs without numba."""

import numpy as np
import pytest

from anchormoe.cases import Cases
from anchormoe.kernels.bank import Readout
from anchormoe.kernels.bank_factory import build_banks
from anchormoe.kernels.quantized import quantize
from anchormoe.kernels.settings import KernelSettings
from anchormoe.kernels.source import KernelSource, Part
from anchormoe.simd import jit


def _cases() -> Cases:
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(3, length)).astype(np.float32) for length in (40, 40, 17, 40)]
    series[1][0, 5:20] = np.nan
    series[3][:, 30:] = np.nan
    return Cases.from_arrays(series)


def _source(cases: Cases) -> KernelSource:
    rng = np.random.default_rng(1)
    parts = []
    for extractor in build_banks(quantize(cases), KernelSettings(profile="balanced"), rng):
        weights = rng.normal(size=(extractor.n_features, 3)) / np.sqrt(extractor.n_features)
        parts.append(Part.of(extractor, Readout(rng.random(extractor.n_features), weights)))
    return KernelSource(3, np.zeros(3), tuple(parts))


@pytest.mark.slow
def test_logits_are_those_of_the_compiled_path_and_evidence_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = _cases()
    source = _source(cases)
    compiled, logits = source.forward(cases), source.logits(cases)
    monkeypatch.setattr(jit, "AVAILABLE", False)
    by_torch = source.to("cpu")
    found = by_torch.forward(cases)
    np.testing.assert_array_equal(found.logits, compiled.logits)
    np.testing.assert_array_equal(by_torch.logits(cases), logits)
    np.testing.assert_array_equal(found.context, compiled.context)
    scale = np.abs(found.evidence.values).max()
    np.testing.assert_allclose(compiled.evidence.values, found.evidence.values, atol=1e-6 * scale)
    np.testing.assert_allclose(compiled.evidence.far, found.evidence.far, atol=1e-6 * scale)
