"""The paper's net in serving: the dense equations, whatever the classes, channels, patches, experts and batch."""

import dataclasses

import numpy as np
import pytest
import torch

from anchormoe.cases import Cases
from anchormoe.evidence import residual
from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.mvre import fourier_basis, position_code
from anchormoe.paper.net import PaperNet
from anchormoe.paper.source import PaperSource
from tests.support import oracle

ODD = ModelConfig(channels=3, classes=2, patch_length=7, patch_stride=3, width=24, experts=5, top_k=3, dropout=0.0)
CLASSES = [2, 15, 16, 17, 26]


def some_source(
    classes: int, *, channels: int = ODD.channels, experts: int = ODD.experts, top_k: int = ODD.top_k
) -> PaperSource:
    torch.manual_seed(0)
    sizes = dataclasses.replace(ODD, classes=classes, channels=channels, experts=experts, top_k=top_k)
    net = PaperNet(sizes).eval()
    with torch.no_grad():
        net.rgc.class_head.mul_(20)  # as large as a trained one, so that errors show
    return PaperSource(net)


def some_cases(count: int, channels: int = 3, steps: int = 31) -> Cases:
    """The second one is shorter, the third has a gap."""
    series = list(np.random.default_rng(0).normal(size=(count, channels, steps)))
    if count > 2:
        series[1] = series[1][:, :13]
        series[2][:, 5:20] = np.nan
    return Cases.from_arrays(series)


@pytest.mark.parametrize("batch", [1, 9])
@pytest.mark.parametrize("classes", CLASSES)
def test_logits_are_those_of_the_dense_equations_for_any_number_of_classes(classes: int, batch: int) -> None:
    source, cases = some_source(classes), some_cases(batch)
    dense = oracle.forward(source._net, torch.from_numpy(cases.x), torch.from_numpy(cases.mask)).logits
    expected = (dense - dense.mean(1, keepdim=True)).detach().numpy()
    output = source.forward(cases)
    np.testing.assert_allclose(output.logits, expected, atol=1e-5 * max(1, np.abs(expected).max()), rtol=0)
    assert residual(output.logits, output.context, output.evidence.values).max() < 1e-4


@pytest.mark.parametrize("changes", [{"channels": 1}, {"experts": 1, "top_k": 1}, {"experts": 17, "top_k": 16}])
@pytest.mark.parametrize("classes", CLASSES)
def test_a_window_alone_equals_bitwise_the_same_window_in_a_batch(classes: int, changes: dict[str, int]) -> None:
    source, cases = some_source(classes, **changes), some_cases(9, changes.get("channels", 3))
    together = source.forward(cases)
    assert together.evidence.expert_values is not None
    for index in range(len(cases)):
        alone = source.forward(cases.subset([index]))
        np.testing.assert_array_equal(alone.logits[0], together.logits[index])
        assert alone.evidence.expert_values is not None
        np.testing.assert_array_equal(alone.evidence.expert_values[0], together.evidence.expert_values[index])


def test_a_net_can_be_trained_after_another_one_has_served() -> None:
    fourier_basis.cache_clear()
    position_code.cache_clear()
    some_source(classes=3).forward(some_cases(2))
    torch.manual_seed(0)
    x = torch.randn(2, ODD.channels, 31, requires_grad=True)
    PaperNet(ODD)(x, torch.ones(x.shape, dtype=torch.bool)).logits.square().sum().backward()
    assert x.grad is not None
