"""Experts learn in bfloat16 as on a GPU: the result stays in float32, close to the one of full precision."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from anchormoe.cases import Cases
from anchormoe.experts.batches import TrainingSet
from anchormoe.experts.geometry import Geometry
from anchormoe.experts.loop import ExpertsHistory, train_committee
from anchormoe.experts.net import CommitteeNet
from anchormoe.experts.settings import A_AS_IS, A, CommitteeSettings
from anchormoe.experts.shape import NetShape
from anchormoe.experts.tokens import prepare
from anchormoe.progress import silent

SETTINGS = CommitteeSettings(variants=(A, A_AS_IS), folds=2, width=16, batch=8, min_steps=60, max_steps=60)
GEOMETRY = Geometry(kernel=3, stride=2, pool=1, length=20)


def _trained(mixed_precision: bool | None, *, channels: int = 2, **parts: float) -> tuple[CommitteeNet, ExpertsHistory]:
    """On cases whose two classes differ in their level; some steps and a channel are missing."""
    settings = replace(SETTINGS, **parts)  # type: ignore[arg-type]  # a test names the field
    rng, y = np.random.default_rng(0), np.arange(24) % 2
    x = rng.normal(size=(24, channels, 20)) + (2.0 * y - 1)[:, None, None]
    x[0, :, 12:] = x[1, 0] = np.nan
    series = prepare(Cases.from_arrays(x), GEOMETRY, torch.device("cpu"))
    flags = settings.per_member("position"), settings.per_member("centre")
    shape = NetShape(*flags, channels, (), classes=2, width=16, value_width=8, experts=4, chosen=2, geometry=GEOMETRY)
    net = CommitteeNet(shape, torch.Generator().manual_seed(0))
    trained = np.tile(np.arange(24) % 3 > 0, (4, 1))
    mean, scale = torch.zeros(channels, 2), torch.ones(channels, 2)
    data = TrainingSet(series, net.read_index(), mean, scale, torch.from_numpy(y), torch.ones(24), trained)
    return net, train_committee(net, data, settings, seed=0, progress=silent, mixed_precision=mixed_precision)


@pytest.mark.slow
@pytest.mark.parametrize(("channels", "parts"), [(2, {}), (30, {}), (2, {"orthogonality": 0.05, "alignment": 0.05})])
def test_bfloat16_trains_as_well_as_float32(channels: int, parts: dict[str, float]) -> None:
    full, history = _trained(False, channels=channels, **parts)
    half, mixed = _trained(True, channels=channels, **parts)
    assert mixed.losses != history.losses  # the arithmetic did differ
    assert mixed.losses[-1] < 0.5 * mixed.losses[0]
    assert mixed.losses[-1] == pytest.approx(history.losses[-1], abs=0.1)
    for name, value in half.named_parameters():
        assert value.dtype == torch.float32, name
        assert torch.isfinite(value).all(), name
    assert full.bias.dtype == half.bias.dtype


def test_on_a_cpu_experts_train_in_full_precision_by_default() -> None:
    assert _trained(None)[1].losses == _trained(False)[1].losses
