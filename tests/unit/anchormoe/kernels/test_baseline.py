"""Features are compared with the mean of the classes' means, with means that can be taken in the head."""

import numpy as np
import pytest

from anchormoe.cases import Cases
from anchormoe.kernels.bank import Readout
from anchormoe.kernels.baseline import balanced_mean, with_balanced_baseline
from anchormoe.kernels.fit import fit_kernel
from anchormoe.kernels.means import MeanBank
from anchormoe.kernels.quantized import quantize
from anchormoe.kernels.settings import KernelSettings
from anchormoe.kernels.source import KernelSource, Part
from anchormoe.training.task import FitTask


def test_each_class_counts_the_same_however_many_cases_it_has() -> None:
    features = np.array([[1.0], [1.0], [1.0], [5.0]])
    assert balanced_mean(features, np.array([0, 0, 0, 1]), np.zeros(1)).tolist() == [3.0]


def test_a_class_without_a_value_is_left_out_and_a_feature_without_any_keeps_its_mean() -> None:
    features = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, np.nan]])
    assert balanced_mean(features, np.array([0, 0, 1]), np.array([9.0, 7.0])).tolist() == [2.0, 7.0]


def test_the_score_stays_and_the_intercept_becomes_evidence() -> None:
    # Three cases at level 0 and one at 4: the mean is 1, halfway between the classes it is 2.
    cases = Cases.from_arrays(np.array([0.0, 0.0, 0.0, 4.0])[:, None, None] * np.ones((4, 1, 2)))
    readout = Readout(np.array([1.0]), np.array([[-0.5, 0.5]]))
    source = KernelSource(1, np.array([0.5, -0.5]), (Part.of(MeanBank("M1", "level", 1, np.arange(1)), readout),))
    moved = with_balanced_baseline(source, quantize(cases), np.array([0, 0, 0, 1]))
    before, after = source.forward(cases), moved.forward(cases)
    assert before.logits.tolist() == after.logits.tolist() == [[1.0, -1.0]] * 3 + [[-1.0, 1.0]]
    assert before.context[0].tolist() == [0.5, -0.5]
    assert after.context[0].tolist() == [0.0, 0.0]
    assert after.evidence.values[0, :, 0].tolist() == [[0.5, -0.5], [0.5, -0.5]]


def test_a_frequent_class_is_called_by_its_evidence() -> None:
    rng = np.random.default_rng(0)
    y = (np.arange(100) % 10 == 0).astype(np.int64)
    cases = Cases.from_arrays(rng.normal(size=(100, 1, 20)) + 2.0 * y[:, None, None])
    output = fit_kernel(FitTask(cases, y, 2), KernelSettings(profile="fast")).source.forward(cases)
    normal = y == 0
    share = np.abs(output.context[normal, 0]) / np.abs(output.logits[normal, 0])
    assert np.median(share) < 0.1  # the mean of targets alone would be 0.8 of a score near 1
    assert output.logits[normal, 0].mean() == pytest.approx(1, abs=0.3)
