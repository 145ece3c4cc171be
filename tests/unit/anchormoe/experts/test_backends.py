"""The experts on every backend: numba and torch agree for any sizes, and whatever is missing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from anchormoe.cases import Cases
from anchormoe.experts.geometry import Geometry
from anchormoe.experts.net import CommitteeNet
from anchormoe.experts.numba_backend import NumbaCommittee
from anchormoe.experts.shape import NetShape
from anchormoe.experts.source import Committee
from anchormoe.experts.torch_backend import TorchCommittee
from anchormoe.simd.backend import VARIABLE

SIZES: dict[str, dict[str, Any]] = {
    "as in the fast profile": {"steps": 128, "channels": 4, "classes": 3, "width": 32, "tokens": 16},
    "as in the balanced profile": {"steps": 128, "channels": 2, "classes": 6, "width": 48, "tokens": 64},
    "odd numbers": {"steps": 37, "channels": 3, "classes": 9, "width": 20, "tokens": 64, "experts": 3, "chosen": 1},
    "all experts": {"steps": 60, "channels": 1, "classes": 2, "width": 8, "tokens": 20, "experts": 2, "chosen": 2},
    "bounded readings": {"steps": 60, "channels": 3, "classes": 4, "width": 24, "tokens": 20, "bounded": True},
    "chosen channels": {
        "steps": 50,
        "channels": 6,
        "classes": 3,
        "width": 16,
        "value_width": 10,
        "tokens": 20,
        "read": ((0, 2, 5), (1, 2, 3)),
    },
}
CLASSES = [2, 15, 16, 17, 26]


def committee(sizes: dict[str, Any], centred: tuple[bool, ...] = (True, False)) -> CommitteeNet:
    generator = torch.Generator().manual_seed(0)
    geometry = Geometry.for_length(sizes["steps"], positions=sizes["tokens"])
    shape = NetShape(
        positioned=(True, False), centred=centred, channels=sizes["channels"], read=sizes.get("read", ()),
        classes=sizes["classes"], width=sizes["width"], value_width=sizes.get("value_width", 24),
        experts=sizes.get("experts", 4), chosen=sizes.get("chosen", 2), geometry=geometry,
        bounded=sizes.get("bounded", False),
    )  # fmt: skip
    net = CommitteeNet(shape, generator)
    with torch.no_grad():
        for weights in net.parameters():  # biases too: a fresh net has zeros there
            weights.add_(torch.randn(weights.shape, generator=generator) * 0.1)
        net.level_mean.add_(torch.randn(net.level_mean.shape, generator=generator))
    return net


def as_source(net: CommitteeNet) -> Committee:
    return Committee(net.shape, net.weights())


def some_cases(sizes: dict[str, Any]) -> Cases:
    """Complete, with a gap, shorter and without a channel, and with nothing at all."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4, sizes["channels"], sizes["steps"])).astype(np.float32)
    mask = np.ones(x.shape, bool)
    mask[1, :, 10:25] = mask[2, :, sizes["steps"] // 2 :] = mask[2, 0] = mask[3] = False
    return Cases.from_windows(np.where(mask, x, 0), mask)


@pytest.mark.parametrize("centred", [(True, False), (True, True), (False, False)])
@pytest.mark.parametrize("name", SIZES)
def test_numba_and_torch_agree(name: str, centred: tuple[bool, ...]) -> None:
    require_agreement(committee(SIZES[name], centred), some_cases(SIZES[name]))


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_a_channel_at_its_level_adds_exactly_nothing_to_bounded_readings(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, backend)
    sizes = SIZES["bounded readings"]
    x = np.random.default_rng(2).normal(size=(2, sizes["channels"], sizes["steps"])).astype(np.float32)
    x[:, 1] = 0.75
    found = as_source(committee(sizes)).forward(Cases.from_windows(x, np.ones(x.shape, bool)))
    for output in found:
        assert (output.evidence.values[:, :-1, 1] == 0).all()  # the last unit is the level itself
        assert (output.evidence.values[:, :-1, 0] != 0).any()


def require_agreement(net: CommitteeNet, cases: Cases) -> None:
    own, weights = net.shape.select_channels(cases), net.weights()
    by_numba = NumbaCommittee(net.shape, weights).forward(own)
    for found, expected in zip(by_numba, TorchCommittee(net.shape, weights).forward(own), strict=True):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, atol=2e-6 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("experts", [1, 5, 17])
@pytest.mark.parametrize("classes", CLASSES)
def test_numba_and_torch_agree_for_any_number_of_classes_and_experts(classes: int, experts: int) -> None:
    sizes = SIZES["odd numbers"] | {"classes": classes, "experts": experts, "chosen": min(3, experts)}
    net, cases = committee(sizes), some_cases(sizes)
    require_agreement(net, cases)
    require_agreement(net, cases.subset(slice(1, 2)))


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("classes", CLASSES)
def test_a_case_alone_equals_bitwise_the_same_case_in_a_batch(
    classes: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, backend)
    sizes = SIZES["odd numbers"] | {"classes": classes}
    source, cases = as_source(committee(sizes)), some_cases(sizes)
    assert source.backend == backend
    together = source.forward(cases)
    for index in range(len(cases)):
        for member, alone in enumerate(source.forward(cases.subset(slice(index, index + 1)))):
            np.testing.assert_array_equal(alone.logits[0], together[member].logits[index])
            np.testing.assert_array_equal(alone.evidence.values[0], together[member].evidence.values[index])


def test_units_and_context_add_up_to_independently_pooled_logits() -> None:
    sizes = SIZES["as in the balanced profile"]
    net = committee(sizes)
    logits, values, by_expert, _, _ = NumbaCommittee(net.shape, net.weights()).forward(some_cases(sizes))
    context = net.context().detach().numpy()[:, None]
    np.testing.assert_allclose(context + values.sum((2, 3)), logits, atol=1e-5)
    np.testing.assert_allclose(by_expert.sum(4), values, atol=1e-12)


def test_options_of_the_paper_are_left_to_torch() -> None:
    plain = committee(SIZES["odd numbers"])
    assert as_source(plain).backend == "numba"
    for shape in (replace(plain.shape, admission=True), replace(plain.shape, spectral=True)):
        net = CommitteeNet(shape, torch.Generator().manual_seed(0))
        assert as_source(net).backend == "torch"
