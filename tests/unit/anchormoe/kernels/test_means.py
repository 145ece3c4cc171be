"""Levels, spreads and changes, over the case and over segments of it."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from anchormoe.cases import Bool
from anchormoe.errors import ModelError
from anchormoe.kernels.bank import Readout
from anchormoe.kernels.evaluator import build_evaluator
from anchormoe.kernels.means import MeanBank, soft_segments
from anchormoe.kernels.quantized import QuantizedCases

CHANNELS = np.arange(2)


def _grid(scaled: ArrayLike, valid: Bool | None = None) -> QuantizedCases:
    values = np.rint(np.asarray(scaled, np.float64) * 1024).astype(np.int32)
    valid = np.ones(values.shape, bool) if valid is None else valid
    lengths = np.full(len(values), values.shape[2])
    return QuantizedCases(
        np.where(valid, values, 0).astype(np.int32), valid, lengths, np.asarray(valid.all(axis=(1, 2)))
    )


def test_levels_spreads_and_changes_worked_out_by_hand() -> None:
    cases = _grid([[[1, 2, 3, 4], [0, 0, 2, 2]]])
    assert MeanBank("M1", "level", 1, CHANNELS).transform(cases).tolist() == [[2.5, 1.0]]
    assert MeanBank("S1", "spread", 1, CHANNELS).transform(cases).tolist() == [[1.25, 1.0]]
    assert MeanBank("A1", "change", 1, CHANNELS).transform(cases).tolist() == [[1.0, 2 / 3]]


def test_levels_of_segments_are_told_from_the_level_of_the_case() -> None:
    low, high = (_grid([[[level, level, level + 1, level + 1]] * 2]) for level in (0, 7))
    bank = MeanBank("M4", "level", 4, CHANNELS)
    np.testing.assert_array_equal(bank.transform(low), bank.transform(high))
    assert bank.transform(low)[0, 0] < 0 < bank.transform(low)[0, -1]


def test_missing_entries_are_left_out() -> None:
    valid = np.ones((1, 2, 4), bool)
    valid[0, 0, 3] = False
    valid[0, 1] = False
    means = MeanBank("M1", "level", 1, CHANNELS).transform(_grid([[[1, 2, 3, 4], [0, 0, 2, 2]]], valid))
    assert means[0, 0] == 2.0
    assert np.isnan(means[0, 1])


def test_soft_segments_add_up_to_1_at_every_step() -> None:
    np.testing.assert_allclose(soft_segments(4, 13).sum(axis=0), 1)
    np.testing.assert_allclose(soft_segments(2, 4), [[1, 0.75, 0.25, 0], [0, 0.25, 0.75, 1]])


@pytest.mark.parametrize(
    "bank",
    [
        MeanBank("M1", "level", 1, CHANNELS),
        MeanBank("M4", "level", 4, CHANNELS),
        MeanBank("S4", "spread", 4, CHANNELS),
        MeanBank("A4", "change", 4, CHANNELS),
    ],
)
def test_steps_sum_to_the_readout(bank: MeanBank) -> None:
    rng = np.random.default_rng(0)
    valid = rng.random((3, 2, 11)) < 0.7
    cases = _grid(rng.normal(size=(3, 2, 11)), valid)
    readout = Readout(rng.normal(size=bank.n_features), rng.normal(size=(bank.n_features, 3)))
    features, evidence = build_evaluator(bank, readout).explain(cases)
    centred = np.nan_to_num(features - readout.mean).reshape(3, bank.segments, 2)
    pooled = np.einsum("bsq,sqy->bqy", centred, readout.weights.reshape(bank.segments, 2, 3))
    np.testing.assert_allclose(evidence.sum(axis=3), pooled, atol=1e-12)
    np.testing.assert_array_equal(bank.transform(cases), features)
    if bank.quantity != "change":  # a change reads two steps
        assert not evidence.swapaxes(2, 3)[~valid].any()


def test_an_unknown_quantity_is_refused() -> None:
    bank = MeanBank("M1", "level", 1, CHANNELS)
    with pytest.raises(ModelError):
        MeanBank.from_parts({**bank.config(), "quantity": "median"}, bank.tensors())
    with pytest.raises(ModelError, match="train the model again"):
        MeanBank.from_parts(bank.config(), {"pairs": np.zeros((1, 2), np.int64)})
    with pytest.raises(ModelError, match="named twice"):
        MeanBank.from_parts(bank.config(), {"channel": np.array([1, 1])})
    with pytest.raises(ModelError, match="0 channels"):
        MeanBank.from_parts(bank.config(), {"channel": np.zeros(0, np.int64)})
