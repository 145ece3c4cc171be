"""Segment means of channels, products and changes."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from anchormoe.cases import Bool
from anchormoe.errors import ModelError
from anchormoe.kernels.bank import Readout
from anchormoe.kernels.evaluator import build_evaluator
from anchormoe.kernels.means import MeanBank, channel_means, product_means, soft_segments
from anchormoe.kernels.quantized import QuantizedCases

CHANNELS = np.arange(2)


def _grid(scaled: ArrayLike, valid: Bool | None = None) -> QuantizedCases:
    values = np.rint(np.asarray(scaled, np.float64) * 1024).astype(np.int32)
    valid = np.ones(values.shape, bool) if valid is None else valid
    lengths = np.full(len(values), values.shape[2])
    return QuantizedCases(
        np.where(valid, values, 0).astype(np.int32), valid, lengths, np.asarray(valid.all(axis=(1, 2)))
    )


def test_means_products_and_changes_worked_out_by_hand() -> None:
    cases = _grid([[[1, 2, 3, 4], [0, 0, 2, 2]]])
    assert channel_means("M1", CHANNELS, 1).transform(cases).tolist() == [[2.5, 1.0]]
    assert product_means("C1", CHANNELS, 1).transform(cases).tolist() == [[30 / 4, 14 / 4, 8 / 4]]
    assert channel_means("A1", CHANNELS, 1, "change").transform(cases).tolist() == [[1.0, 2 / 3]]


def test_missing_entries_are_left_out() -> None:
    valid = np.ones((1, 2, 4), bool)
    valid[0, 0, 3] = False
    valid[0, 1] = False
    means = channel_means("M1", CHANNELS, 1).transform(_grid([[[1, 2, 3, 4], [0, 0, 2, 2]]], valid))
    assert means[0, 0] == 2.0
    assert np.isnan(means[0, 1])


def test_soft_segments_add_up_to_1_at_every_step() -> None:
    np.testing.assert_allclose(soft_segments(4, 13).sum(axis=0), 1)
    np.testing.assert_allclose(soft_segments(2, 4), [[1, 0.75, 0.25, 0], [0, 0.25, 0.75, 1]])


@pytest.mark.parametrize(
    "bank",
    [channel_means("M4", CHANNELS, 4), product_means("C4", CHANNELS, 4), channel_means("A4", CHANNELS, 4, "change")],
)
def test_steps_sum_to_the_readout(bank: MeanBank) -> None:
    rng = np.random.default_rng(0)
    valid = rng.random((3, 2, 11)) < 0.7
    cases = _grid(rng.normal(size=(3, 2, 11)), valid)
    readout = Readout(rng.normal(size=bank.n_features), rng.normal(size=(bank.n_features, 3)))
    evidence = build_evaluator(bank, readout).explain(cases, np.full(3, 33.0))
    pooled = np.nan_to_num(evidence.features - readout.mean) @ readout.weights
    np.testing.assert_allclose(evidence.steps.sum(axis=1), pooled, atol=1e-12)
    np.testing.assert_array_equal(bank.transform(cases), evidence.features)
    assert np.abs(evidence.steps[~cases.step_valid]).sum() == 0


def test_an_unknown_quantity_is_refused() -> None:
    bank = channel_means("M1", CHANNELS, 1)
    with pytest.raises(ModelError):
        MeanBank.from_parts({**bank.config(), "quantity": "median"}, bank.tensors())
