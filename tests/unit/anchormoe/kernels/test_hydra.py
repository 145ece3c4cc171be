"""Hydra: worked out by hand, exactness, compiled against torch."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from anchormoe.cases import Bool
from anchormoe.errors import ModelError
from anchormoe.kernels.bank import Readout
from anchormoe.kernels.evaluator import transform
from anchormoe.kernels.hydra import RESPONSE_UNIT, SERIES_LIMIT, WEIGHT_LIMIT, HydraBank, build_hydra
from anchormoe.kernels.hydra_numba import NumbaHydra
from anchormoe.kernels.quantized import QuantizedCases
from anchormoe.kernels.torch_backend import TorchHydra


def _grid(given: ArrayLike, ends: list[int] | None = None, valid: Bool | None = None) -> QuantizedCases:
    values = np.asarray(given, np.int32)
    lengths = np.full(len(values), values.shape[2]) if ends is None else np.array(ends)
    inside = (np.arange(values.shape[2]) < lengths[:, None])[:, None, :]
    valid = np.broadcast_to(inside, values.shape) if valid is None else valid & inside
    complete = valid.sum(axis=(1, 2)) == lengths * values.shape[1]
    return QuantizedCases(np.where(valid, values, 0).astype(np.int32), valid, lengths.astype(np.int64), complete)


def _random_grid(steps: int = 40) -> QuantizedCases:
    rng = np.random.default_rng(2)
    values = rng.integers(-16384, 16384, (6, 4, steps))
    valid = rng.random(values.shape) < 0.9
    valid[:3] = True
    valid[5] = False
    return _grid(values, [steps, 8, 1, steps, steps // 2, steps], valid)


def test_winners_worked_out_by_hand() -> None:
    # Kernel i weighs only tap 4, with i + 1: the largest response at a positive step is kernel 7's, at a negative
    # one kernel 0's; at 0 all tie and the first wins. Series are halved: 4 -> 2, -6 -> -3.
    weights = np.zeros((1, 8, 9), np.int32)
    weights[0, :, 4] = np.arange(1, 9)
    bank = HydraBank("H", False, 33, weights, np.array([1]), np.array([0, 1]), np.array([0]))
    features = transform(bank, _grid([[[4, 0, -6, 4]]]))[0]
    largest = np.zeros(8)
    largest[7] = (16 + 16) / 4 * RESPONSE_UNIT
    largest[0] = -3 / 4 * RESPONSE_UNIT
    smallest = np.array([3, 0, 0, 0, 0, 0, 0, 1]) / 4
    np.testing.assert_allclose(features, np.concatenate((largest, smallest)), rtol=1e-15)


@pytest.mark.parametrize("steps", [40, 1500])
def test_the_compiled_path_equals_torch(steps: int) -> None:
    # 1500 outputs are more than one run of 32-bit sums.
    cases = _random_grid(steps)
    rng = np.random.default_rng(0)
    bank = replace(build_hydra(cases, 4, difference=False, max_receptive_field=33, rng=rng), long_reach=20)
    table = bank.readout_table(Readout(rng.random(bank.n_features), rng.normal(size=(bank.n_features, 3))))
    poolings = (NumbaHydra(bank, table), TorchHydra(bank, table, "cpu"))
    compiled, by_torch = (pooling.pool(cases) for pooling in poolings)
    np.testing.assert_array_equal(compiled.features, by_torch.features)
    np.testing.assert_allclose(compiled.evidence, by_torch.evidence, atol=1e-6 * np.abs(by_torch.evidence).max())
    assert {slot.family for slot in bank.slots} == {"short shape", "long shape"}
    assert all(compiled.evidence[:, index].any() for index in range(len(bank.slots)))


def test_the_largest_possible_response_is_exact_in_float32() -> None:
    bank = build_hydra(_random_grid(), 8, difference=True, max_receptive_field=None, rng=np.random.default_rng(0))
    assert np.abs(bank.weights).sum(axis=2).max() <= WEIGHT_LIMIT
    assert WEIGHT_LIMIT * SERIES_LIMIT < 2**24


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weights", np.full((1, 8, 9), 1000, np.int32)),
        ("weights", np.zeros((1, 7, 9), np.int32)),
        ("weights", np.full((1, 8, 9), np.iinfo(np.int32).min, np.int32)),
        ("dilation", np.array([0])),
        ("dilation", np.array([1 << 40])),
        ("channel_start", np.array([0, 2])),
    ],
)
def test_an_inconsistent_bank_is_refused(name: str, value: NDArray[Any]) -> None:
    bank = HydraBank("H", False, 33, np.zeros((1, 8, 9), np.int32), np.array([1]), np.array([0, 1]), np.array([0]))
    with pytest.raises(ModelError):
        HydraBank.from_parts(bank.config(), {**bank.tensors(), name: value})
