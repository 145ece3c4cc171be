"""Batches: what members read is centred and mixed as in serving, and disturbed only where something is."""

import numpy as np
import pytest
import torch
from torch import Tensor

from anchormoe.cases import Cases
from anchormoe.experts.batches import Batches, TrainingSet
from anchormoe.experts.net import MIXED_CHANNELS, CommitteeNet, NetShape
from anchormoe.experts.settings import A_AS_IS, A, CommitteeSettings
from anchormoe.experts.tokens import Geometry, Series, centre_for_members, prepare

SETTINGS = CommitteeSettings(variants=(A, A_AS_IS), folds=1, shift=0.0, noise=0.3)
GEOMETRY = Geometry(kernel=3, stride=2, pool=1, length=10)


def _net(channels: int) -> CommitteeNet:
    flags = SETTINGS.per_member("position"), SETTINGS.per_member("centre")
    shape = NetShape(*flags, channels, classes=2, width=8, experts=2, chosen=1, geometry=GEOMETRY)
    return CommitteeNet(shape, torch.Generator().manual_seed(0))


def _series(channels: int, *, missing: bool) -> Series:
    x = np.random.default_rng(0).normal(size=(6, channels, 10)).astype(np.float32)
    if missing:
        x[0, :, 7:] = x[1, : channels // 2] = np.nan
    return prepare(Cases.from_arrays(x), GEOMETRY, torch.device("cpu"))


def _batches(net: CommitteeNet, series: Series) -> Batches:
    trained = np.ones((2, len(series)), np.bool_)
    trained[:, -1] = False
    data = TrainingSet(series, series.summary, torch.arange(6) % 2, torch.ones(6), trained)
    return Batches(net, data, 4, SETTINGS, seed=0)


def _centred(series: Series, index: Tensor) -> Tensor:
    return centre_for_members(series.x[index], series.mask[index], series.level[index], SETTINGS.per_member("centre"))


@pytest.mark.parametrize("channels", [3, 100])
@pytest.mark.parametrize("missing", [False, True])
def test_batches_without_random_changes_are_read_as_in_serving(channels: int, missing: bool) -> None:
    net, series = _net(channels), _series(channels, missing=missing)
    batches = _batches(net, series)
    batch, _ = batches.take()
    with torch.no_grad():
        expected = net(_centred(series, batch.index), batch.valid).expert_logits
        torch.testing.assert_close(
            net.forward_mixed(batches.read(batch), batch.valid).expert_logits, expected, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("channels", [3, 100])
def test_noise_is_added_to_valid_steps_only(channels: int) -> None:
    net, series = _net(channels), _series(channels, missing=True)
    batches = _batches(net, series)
    batch, draws = batches.take()
    with torch.no_grad():
        moved = batches.read(batch, draws) != batches.read(batch)  # (G, B, R, S)
    there = series.mask[batch.index]
    expected = there.any(2, keepdim=True).expand_as(moved) if channels == 100 else there
    assert torch.equal(moved, expected)


def test_noise_after_the_mix_varies_with_the_share_of_valid_channels() -> None:
    series = _series(100, missing=True)
    batches = _batches(_net(100), series)
    assert batches.noise_scale is not None
    assert batches.noise_scale[1, 0].tolist() == [pytest.approx(0.5**0.5)] * 10
    assert batches.noise_scale[0, 0].tolist() == [1] * 7 + [0] * 3


def test_noise_after_the_mix_has_the_covariance_of_noise_before_it() -> None:
    net = _net(100)
    with torch.no_grad():
        root = net.mix_noise(torch.eye(MIXED_CHANNELS).expand(2, 1, -1, -1))[:, 0]  # (G, R, R)
        covariance = net.channel_mix.transpose(1, 2) @ net.channel_mix
    torch.testing.assert_close(root @ root.transpose(1, 2), covariance, rtol=1e-4, atol=1e-4)


def test_noise_after_the_mix_has_the_gradient_of_noise_before_it_on_average() -> None:
    """The mean square of what noise of variance 1 becomes is tr(WᵀW) per step, so its gradient is 2 W."""
    net = _net(100)
    noise = torch.randn((2, 1, MIXED_CHANNELS, 40_000), generator=torch.Generator().manual_seed(1))
    (net.mix_noise(noise).square().sum() / 40_000).backward()  # type: ignore[no-untyped-call]
    assert net.channel_mix.grad is not None
    expected = 2 * net.channel_mix.detach()
    assert (net.channel_mix.grad - expected).norm() < 0.05 * expected.norm()


def test_few_channels_are_not_mixed() -> None:
    noise = torch.ones(2, 1, 3, 10)
    assert _net(3).mix_noise(noise) is noise


def test_processes_share_a_batch_and_its_random_changes() -> None:
    net, series = _net(3), _series(3, missing=False)
    batches = _batches(net, series)
    batch, draws = batches.take()
    whole = batches.read(batch, draws)
    for rank in (0, 1):
        assert torch.equal(batches.read(batch.every_nth(2, rank), draws.every_nth(2, rank)), whole[:, rank::2])


def test_held_out_cases_are_read_unchanged() -> None:
    net, series = _net(3), _series(3, missing=False)
    batches = _batches(net, series)
    batch = batches.held_out()
    assert batch is not None
    assert batch.index.tolist() == [[5] * 4] * 2
    assert torch.equal(batches.read(batch), _centred(series, batch.index))
