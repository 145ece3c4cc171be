"""Kernel sources on every backend: numba and torch agree, whatever the classes, channels and batch."""

import pickle

import numpy as np
import pytest

from anchormoe.cases import Cases
from anchormoe.evidence import SourceOutput, centred
from anchormoe.kernels.bank import Readout
from anchormoe.kernels.bank_factory import build_banks
from anchormoe.kernels.quantized import quantize
from anchormoe.kernels.settings import KernelSettings
from anchormoe.kernels.source import KernelSource, Part
from anchormoe.simd.backend import VARIABLE
from anchormoe.training.task import Profile

CLASSES = [2, 15, 16, 17, 26]


def some_cases(channels: int = 3) -> Cases:
    """Complete, with a gap in one channel, shorter, with missing steps at the end, and with nothing at all."""
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(channels, length)).astype(np.float32) for length in (40, 40, 17, 40, 23)]
    series[1][0, 5:20] = np.nan
    series[3][:, 30:] = np.nan
    series[4][:] = np.nan
    return Cases.from_arrays(series)


def some_source(cases: Cases, classes: int, *, profile: Profile = "fast", fitted: bool = True) -> KernelSource:
    """Every bank of the profile with a random readout, centred over the classes if it is to be as a fitted one."""
    rng = np.random.default_rng(1)
    parts = []
    for bank in build_banks(quantize(cases), KernelSettings(profile=profile), rng):
        weights = rng.normal(size=(bank.n_features, classes)) / np.sqrt(bank.n_features)
        readout = Readout(rng.random(bank.n_features), centred(weights) if fitted else weights)
        parts.append(Part.of(bank, readout))
    return KernelSource(cases.channels, np.zeros(classes), tuple(parts))


def on_backend(source: KernelSource, backend: str, monkeypatch: pytest.MonkeyPatch) -> KernelSource:
    monkeypatch.setenv(VARIABLE, backend)
    moved = source.to("cpu")
    assert moved.backend == backend
    return moved


def require_agreement(found: SourceOutput, expected: SourceOutput) -> None:
    """Features and thus logits are exact on both backends; evidence is summed in float32 by numba."""
    np.testing.assert_array_equal(found.logits, expected.logits)
    np.testing.assert_array_equal(found.context, expected.context)
    scale = np.abs(expected.evidence.values).max()
    np.testing.assert_allclose(found.evidence.values, expected.evidence.values, atol=1e-6 * scale)
    assert (found.evidence.terms, found.evidence.experts) == (expected.evidence.terms, expected.evidence.experts)
    assert found.evidence.expert_values is not None
    assert expected.evidence.expert_values is not None
    np.testing.assert_allclose(found.evidence.expert_values, expected.evidence.expert_values, atol=1e-6 * scale)


@pytest.mark.parametrize(("channels", "fitted"), [(1, True), (3, True), (3, False)])
@pytest.mark.parametrize("classes", CLASSES)
def test_numba_and_torch_agree_for_any_number_of_classes(
    classes: int, channels: int, fitted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = some_cases(channels)
    source = some_source(cases, classes, fitted=fitted)
    by_numba, by_torch = (on_backend(source, backend, monkeypatch) for backend in ("numba", "torch"))
    require_agreement(by_numba.forward(cases), by_torch.forward(cases))
    one = cases.subset(slice(1, 2))
    require_agreement(by_numba.forward(one), by_torch.forward(one))


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 17])
def test_numba_and_torch_agree_on_every_kind_of_bank(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = some_cases(5)
    source = some_source(cases, classes, profile="balanced")
    assert {part.bank.config()["kind"] for part in source.parts} == {"shares", "hydra", "means"}
    by_numba, by_torch = (on_backend(source, backend, monkeypatch) for backend in ("numba", "torch"))
    require_agreement(by_numba.forward(cases), by_torch.forward(cases))
    monkeypatch.setenv(VARIABLE, "numba")
    logits = source.logits(cases)
    monkeypatch.setenv(VARIABLE, "torch")
    np.testing.assert_array_equal(source.logits(cases), logits)


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("classes", [2, 16, 26])
def test_a_case_alone_equals_bitwise_the_same_case_in_a_batch(
    classes: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = some_cases()
    source = on_backend(some_source(cases, classes), backend, monkeypatch)
    together = source.forward(cases)
    for index in range(len(cases)):
        alone = source.forward(cases.subset(slice(index, index + 1)))
        np.testing.assert_array_equal(alone.logits[0], together.logits[index])
        np.testing.assert_array_equal(alone.evidence.values[0], together.evidence.values[index])


def test_a_pickled_source_chooses_its_backend_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = some_cases()
    source = some_source(cases, 3)
    stored = pickle.dumps(source)
    np.testing.assert_array_equal(pickle.loads(stored).forward(cases).logits, source.forward(cases).logits)
    monkeypatch.setenv(VARIABLE, "torch")
    assert pickle.loads(stored).backend == "torch"
