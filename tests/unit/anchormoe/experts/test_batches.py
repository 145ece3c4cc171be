"""Batches: what members read is centred and chosen as in serving, and disturbed only where something is."""

import numpy as np
import pytest
import torch

from anchormoe.cases import Cases
from anchormoe.experts.batches import Batches, TrainingSet
from anchormoe.experts.geometry import Geometry
from anchormoe.experts.net import CommitteeNet
from anchormoe.experts.settings import A_AS_IS, A, CommitteeSettings
from anchormoe.experts.shape import NetShape
from anchormoe.experts.tokens import Series, prepare

SETTINGS = CommitteeSettings(variants=(A, A_AS_IS), folds=1, shift=0.0, noise=0.3, absence=0.0)
GEOMETRY = Geometry(kernel=3, stride=2, pool=1, length=10)
CHOSEN = ((0, 2), (1, 2))


def _net(read: tuple[tuple[int, ...], ...] = ()) -> CommitteeNet:
    flags = SETTINGS.per_member("position"), SETTINGS.per_member("centre")
    shape = NetShape(*flags, 3, read, classes=2, width=8, value_width=4, experts=2, chosen=1, geometry=GEOMETRY)
    return CommitteeNet(shape, torch.Generator().manual_seed(0))


def _series(*, missing: bool) -> Series:
    x = np.random.default_rng(0).normal(size=(6, 3, 10)).astype(np.float32)
    if missing:
        x[0, :, 7:] = x[1, 0] = np.nan
    return prepare(Cases.from_arrays(x), GEOMETRY, torch.device("cpu"))


def _batches(net: CommitteeNet, series: Series, settings: CommitteeSettings = SETTINGS) -> Batches:
    trained = np.ones((2, len(series)), np.bool_)
    trained[:, -1] = False
    mean, scale = torch.zeros(3, 2), torch.ones(3, 2)
    data = TrainingSet(series, net.read_index(), mean, scale, torch.arange(6) % 2, torch.ones(6), trained)
    return Batches(net, data, 4, settings, seed=0)


@pytest.mark.parametrize("read", [(), CHOSEN])
@pytest.mark.parametrize("missing", [False, True])
def test_batches_without_random_changes_are_read_as_in_serving(
    read: tuple[tuple[int, ...], ...], missing: bool
) -> None:
    net, series = _net(read), _series(missing=missing)
    batches = _batches(net, series)
    batch, _ = batches.take()
    reading, serving = batches.read(batch), net.inputs(series)
    for member in (0, 1):
        own = batch.index[member]
        torch.testing.assert_close(reading.x[member], serving.x[member, own])
        torch.testing.assert_close(
            reading.deviation[member], serving.deviation[min(member, len(serving.deviation) - 1), own]
        )
        same = min(member, len(serving.valid) - 1)
        assert torch.equal(reading.valid[member].bool(), serving.valid[same, own])
        assert torch.equal(batch.summary[member], serving.summary[same, own])
        assert torch.equal(reading.positions[member], serving.positions[0, own])


def test_noise_is_added_to_valid_steps_only() -> None:
    net, series = _net(), _series(missing=True)
    batches = _batches(net, series)
    batch, draws = batches.take()
    moved = batches.read(batch, draws).x != batches.read(batch).x  # (G, B, R, S)
    assert torch.equal(moved, series.mask[batch.index])


def test_missing_spans_are_read_as_missing() -> None:
    net, series = _net(), _series(missing=False)
    settings = CommitteeSettings(variants=(A, A_AS_IS), folds=1, shift=0.0, noise=0.0, absence=1.0)
    batches = _batches(net, series, settings)
    batch, draws = batches.take()
    reading, whole = batches.read(batch, draws), batches.read(batch)
    assert 0 < (~draws.kept).float().mean() < 0.5
    torch.testing.assert_close(reading.x, whole.x * draws.kept)
    torch.testing.assert_close(reading.deviation, whole.deviation * draws.kept)
    assert (reading.valid < whole.valid).any()
    assert torch.equal(reading.positions, whole.positions)


def test_processes_share_a_batch_and_its_random_changes() -> None:
    net, series = _net(), _series(missing=False)
    batches = _batches(net, series)
    batch, draws = batches.take()
    whole = batches.read(batch, draws)
    for rank in (0, 1):
        part = batches.read(batch.every_nth(2, rank), draws.every_nth(2, rank))
        assert torch.equal(part.x, whole.x[:, rank::2])
        assert torch.equal(part.valid, whole.valid[:, rank::2])


def test_held_out_cases_are_those_that_a_member_does_not_train_on() -> None:
    batches = _batches(_net(), _series(missing=False))
    batch = batches.held_out()
    assert batch is not None
    assert batch.index.tolist() == [[5] * 4] * 2


def test_anchors_are_taken_from_cases_that_a_member_trains_on() -> None:
    batches = _batches(_net(), _series(missing=False))
    assert batches.trained_cases(100).index.tolist() == [[0, 1, 2, 3, 4]] * 2
    assert batches.trained_cases(2).index.tolist() == [[0, 2]] * 2
