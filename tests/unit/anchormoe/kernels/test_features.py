"""Scaling of features: what cannot tell cases apart gets no weight, so that evidence does not cancel."""

import numpy as np
import pytest
from numpy.typing import NDArray

from anchormoe.cases import Cases, Float32, Float64
from anchormoe.kernels.bank import KernelBank
from anchormoe.kernels.evaluator import transform
from anchormoe.kernels.features import Scaling
from anchormoe.kernels.fit import fit_kernel
from anchormoe.kernels.hydra import build_hydra
from anchormoe.kernels.means import MeanBank, Quantity
from anchormoe.kernels.ppv_build import PPVSettings, build_ppv
from anchormoe.kernels.quantized import QuantizedCases, quantize
from anchormoe.kernels.settings import KernelSettings
from anchormoe.model.normalizer import Normalizer
from anchormoe.training.task import FitTask

Array = NDArray[np.float64]
QUANTITIES: tuple[Quantity, Quantity] = ("level", "spread")


def _normalized(x: Array) -> Cases:
    cases = Cases.from_arrays(x)
    return Normalizer.fit(cases).apply(cases)


def _noise(n: int = 40, channels: int = 2, steps: int = 64, seed: int = 0) -> Array:
    """Random walks of white steps, so that neighbouring values depend on each other."""
    return np.random.default_rng(seed).normal(size=(n, channels, steps)).cumsum(axis=2)


def _standardised_by_case(x: Array) -> Array:
    return np.asarray((x - x.mean(axis=2, keepdims=True)) / x.std(axis=2, keepdims=True))


def _scaling(bank: KernelBank, quantized: QuantizedCases) -> Scaling:
    features: Float32 = transform(bank, quantized).astype(np.float32)
    weight: Float64 = np.full(len(quantized), 1 / len(quantized))
    return Scaling.of(features, weight, bank.chance_deviation(quantized, features))


@pytest.mark.parametrize("n", [3, 40])
@pytest.mark.parametrize("steps", [8, 64, 1000])
def test_means_and_squares_of_cases_standardised_one_by_one_cannot_tell_them_apart(n: int, steps: int) -> None:
    quantized = quantize(_normalized(_standardised_by_case(_noise(n=n, steps=steps))))
    for quantity in QUANTITIES:
        assert not _scaling(MeanBank("M1", quantity, 1, np.arange(2)), quantized).inverse.any()


def test_means_of_white_noise_stay() -> None:
    """Their deviation over cases is just what chance gives."""
    quantized = quantize(_normalized(np.random.default_rng(0).normal(size=(40, 2, 64))))
    for bank in (MeanBank("M1", "level", 1, np.arange(2)), MeanBank("M4", "level", 4, np.arange(2))):
        assert (_scaling(bank, quantized).inverse > 0).all()


def test_the_chance_deviation_is_what_independent_steps_give() -> None:
    rng = np.random.default_rng(0)
    quantized = quantize(_normalized(rng.normal(size=(4000, 1, 25))))
    for quantity in QUANTITIES:
        bank = MeanBank("M1", quantity, 1, np.arange(1))
        features = transform(bank, quantized)
        chance = bank.chance_deviation(quantized, features.astype(np.float32))
        np.testing.assert_allclose(chance, features.std(axis=0), rtol=0.2)


def test_features_of_a_constant_channel_get_no_weight() -> None:
    x = _noise(channels=2)
    x[:, 1] = 7.0
    quantized = quantize(_normalized(x))
    rng = np.random.default_rng(0)
    hydra = build_hydra(quantized.subset(slice(None)), 2, difference=False, max_receptive_field=None, rng=rng)
    banks: list[KernelBank] = [
        MeanBank("M1", "level", 1, np.array([1])),
        MeanBank("S1", "spread", 1, np.array([1])),
        MeanBank("A4", "change", 4, np.array([1])),
    ]
    assert all(not _scaling(bank, quantized).inverse.any() for bank in banks)
    constant = QuantizedCases(np.zeros_like(quantized.values), quantized.valid, quantized.lengths, quantized.complete)
    ppv = build_ppv(PPVSettings("K", 168), constant, rng)
    assert not _scaling(ppv, constant).inverse.any()
    assert not _scaling(hydra, constant).inverse.any()


def test_rounding_of_a_feature_with_a_large_mean_is_no_variation() -> None:
    values = np.float32(3e4) + np.zeros((6, 1), np.float32)
    values[0] = np.nextafter(values[0], np.float32(np.inf))
    assert not Scaling.of(values, np.full(6, 1 / 6), np.zeros(1)).inverse.any()


def _cancellation(x: Array, labels: NDArray[np.int64], profile: KernelSettings) -> float:
    """Σ|steps| / |logit| of the predicted class, median."""
    cases = _normalized(x)
    output = fit_kernel(FitTask(cases, labels, 2), profile).source.forward(cases)
    rows, chosen = np.arange(len(cases)), output.logits.argmax(axis=1)
    patches = output.evidence.values.sum(axis=2)[rows, :, chosen].reshape(len(cases), -1, 8).sum(axis=2)
    total = np.abs(patches).sum(axis=1) + np.abs(output.context[rows, chosen])
    return float(np.median(total / np.abs(output.logits[rows, chosen])))


@pytest.mark.parametrize("kind", ["as it is", "standardised", "float32", "near-constant", "offset"])
@pytest.mark.parametrize("n", [12, 80])
def test_evidence_does_not_cancel(kind: str, n: int) -> None:
    """Class 1 has a bump on channel 0; standardising each case by itself leaves nothing in means but rounding."""
    labels = np.arange(n) % 2
    x = _noise(n=n)
    x[labels == 1, 0, 20:36] += 12
    if kind in ("standardised", "float32"):
        x = _standardised_by_case(x)
    if kind == "float32":
        x = x.astype(np.float32).astype(np.float64)
    if kind == "near-constant":
        x[:, 1] = 5 + 1e-7 * np.random.default_rng(1).normal(size=x[:, 1].shape)
    if kind == "offset":
        x[:, 1] = 1e6 + 1e-3 * x[:, 1]
    assert _cancellation(x, labels, KernelSettings()) < 2
