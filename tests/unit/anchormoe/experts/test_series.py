"""Series are prepared in numpy as torch's training reads them, whatever is missing."""

import numpy as np
import pytest
import torch

from anchormoe.cases import Cases
from anchormoe.experts.fused_weights import position_code
from anchormoe.experts.geometry import Geometry
from anchormoe.experts.net import CommitteeNet
from anchormoe.experts.net import position_code as torch_position_code
from anchormoe.experts.series import member_arrays, prepare_series
from anchormoe.experts.shape import NetShape, tensor_shapes
from anchormoe.experts.tokens import prepare, valid_tokens


def some_cases(steps: int = 45, channels: int = 4) -> Cases:
    rng = np.random.default_rng(3)
    x, mask = rng.normal(size=(6, channels, steps)).astype(np.float32), rng.random((6, channels, steps)) > 0.4
    mask[0] = True
    mask[1, 2] = mask[2, :, 20:] = mask[3] = False
    return Cases.from_windows(np.where(mask, x, 0), mask)


def shape_of(read: tuple[tuple[int, ...], ...], centred: tuple[bool, ...], pool: int, *, spectral: bool) -> NetShape:
    geometry = Geometry(kernel=5, stride=2, pool=pool, length=45)
    return NetShape((True, False), centred, 4, read, 3, 8, 6, 4, 2, geometry, spectral=spectral)


@pytest.mark.parametrize("pool", [1, 3])
def test_a_median_is_the_lower_of_two_in_the_middle_as_in_torch(pool: int) -> None:
    cases = some_cases()
    series = prepare_series(cases, Geometry(kernel=5, stride=2, pool=pool, length=45))
    hidden = torch.where(torch.from_numpy(series.mask), torch.from_numpy(series.x), torch.nan)
    np.testing.assert_array_equal(series.level, hidden.nanmedian(-1).values.nan_to_num(0.0).numpy())
    assert series.level[3].tolist() == [0.0] * 4  # nothing is there


@pytest.mark.parametrize("pool", [1, 3])
def test_the_same_tokens_are_valid_as_in_training(pool: int) -> None:
    geometry = Geometry(kernel=5, stride=2, pool=pool, length=45)
    series = prepare_series(some_cases(), geometry)
    expected = valid_tokens(torch.from_numpy(series.mask), torch.from_numpy(series.length), geometry)
    np.testing.assert_array_equal(series.valid, expected.numpy())
    assert 0 < series.valid.mean() < 1


@pytest.mark.parametrize("centred", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("read", [(), ((0, 2), (1, 3)), ((0, 1), (0, 3))])
def test_members_read_the_same_bits_in_numpy_and_in_torch(
    read: tuple[tuple[int, ...], ...], centred: tuple[bool, ...]
) -> None:
    shape = shape_of(read, centred, 1, spectral=False)
    cases = shape.select_channels(some_cases())
    found = member_arrays(prepare_series(cases, shape.geometry), shape)
    expected = CommitteeNet(shape).inputs(prepare(cases, shape.geometry, torch.device("cpu")))
    for name, array in found._asdict().items():
        np.testing.assert_array_equal(array, getattr(expected, name).numpy(), err_msg=name)
        assert array.flags.c_contiguous, name


def test_positions_have_the_same_code_in_numpy_and_in_torch() -> None:
    geometry = Geometry(kernel=5, stride=2, pool=3, length=45)
    expected = torch_position_code(12, geometry, torch.device("cpu")).numpy()
    np.testing.assert_allclose(position_code(12, geometry), expected, atol=2e-6)


@pytest.mark.parametrize("spectral", [False, True])
def test_a_network_has_the_tensors_that_a_bundle_must_have(spectral: bool) -> None:
    shape = shape_of(((0, 2), (1, 3)), (True, True), 1, spectral=spectral)
    net = CommitteeNet(shape)
    assert tensor_shapes(shape) == {name: tuple(values.shape) for name, values in net.state_dict().items()}
    again = CommitteeNet.from_weights(shape, net.weights())
    for name, values in net.state_dict().items():
        assert torch.equal(values, again.state_dict()[name]), name
