"""What always holds for a committee: exact sums, nothing on invalid tokens, no NaN, no effect of padding."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anchormoe.cases import Cases
from anchormoe.experts.geometry import Geometry
from anchormoe.experts.net import CommitteeNet
from anchormoe.experts.shape import NetShape
from anchormoe.experts.source import Committee


def _committee(channels: int, classes: int, length: int, seed: int) -> Committee:
    geometry = Geometry.for_length(length, positions=16)
    shape = NetShape((True, False), (True, False), channels, (), classes, 8, 6, 4, 2, geometry)
    net = CommitteeNet(shape, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed + 1)))
        net.level_mean.add_(0.3)
    return Committee(shape, net.weights())


def _cases(size: int, channels: int, length: int, valid: float, seed: int) -> Cases:
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(0, 3, (size, channels, length)) * 1024) / 1024
    x[rng.random(x.shape) > valid] = np.nan
    return Cases.from_arrays(x)


@given(
    size=st.integers(1, 40),
    channels=st.integers(1, 5),
    classes=st.integers(1, 6),
    length=st.integers(1, 70),
    valid=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    extra=st.integers(0, 40),
    seed=st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_sums_are_exact_and_padding_changes_nothing(
    size: int, channels: int, classes: int, length: int, valid: float, extra: int, seed: int
) -> None:
    committee, cases = _committee(channels, classes, length, seed), _cases(size, channels, length, valid, seed)
    longer = committee.forward(cases.resized(length + extra))
    for output, padded in zip(committee.forward(cases), longer, strict=True):
        bound = 1e-5 * max(1.0, float(np.abs(output.logits).max()))
        assert np.isfinite(output.logits).all()
        values = output.evidence.values
        assert np.abs(output.context + values.sum((1, 2)) - output.logits).max() <= bound
        assert np.abs(padded.logits - output.logits).max() <= bound
        assert (padded.evidence.values[:, values.shape[1] - 1 : -1] == 0).all()
        assert (values[:, -1][~cases.mask.any(2)] == 0).all()  # no level of a channel that is missing
