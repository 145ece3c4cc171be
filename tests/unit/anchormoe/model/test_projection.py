"""Gates are averaged over the units that have them."""

import numpy as np

from anchormoe.model.projection import Projection

NAN = float("nan")
UNITS = np.array([0, 2, 0]), np.array([2, 4, 4])  # two tokens, then the whole window
GRID = np.array([0, 2]), np.array([2, 4])


def test_units_without_a_gate_do_not_count_in_its_mean() -> None:
    projection = Projection(UNITS, GRID, np.ones((1, 4), np.bool_))
    gates = np.array([[[0.2, NAN], [0.6, NAN], [NAN, NAN]]])  # the second expert has none at all
    means = projection.means(gates)
    np.testing.assert_allclose(means[0, :, 0], [0.2, 0.6])
    assert np.isnan(means[0, :, 1]).all()


def test_means_without_missing_gates_are_over_all_units_of_a_step() -> None:
    projection = Projection(UNITS, GRID, np.ones((1, 4), np.bool_))
    np.testing.assert_allclose(projection.means(np.array([[[0.2], [0.6], [1.0]]]))[0, :, 0], [0.6, 0.8])
