"""The compiled committee answers as torch's does, for any sizes and whatever is missing."""

from typing import Any

import numpy as np
import pytest
import torch

from anchormoe.cases import Cases
from anchormoe.experts.net import CommitteeNet, NetShape
from anchormoe.experts.numba_backend import NumbaCommittee, possible
from anchormoe.experts.tokens import Geometry, prepare
from anchormoe.experts.torch_backend import TorchCommittee
from anchormoe.simd import products

SIZES: dict[str, dict[str, Any]] = {
    "as in the fast profile": {"steps": 128, "channels": 4, "classes": 3, "width": 32, "tokens": 16},
    "as in the balanced profile": {"steps": 128, "channels": 2, "classes": 6, "width": 48, "tokens": 64},
    "odd numbers": {"steps": 37, "channels": 3, "classes": 9, "width": 20, "tokens": 64, "experts": 3, "chosen": 1},
    "all experts": {"steps": 60, "channels": 1, "classes": 2, "width": 8, "tokens": 20, "experts": 2, "chosen": 2},
}


def committee(sizes: dict[str, Any], centred: tuple[bool, ...] = (True, False)) -> CommitteeNet:
    generator = torch.Generator().manual_seed(0)
    geometry = Geometry.for_length(sizes["steps"], tokens=sizes["tokens"])
    shape = NetShape(
        positioned=(True, False), centred=centred, channels=sizes["channels"], classes=sizes["classes"],
        width=sizes["width"], experts=sizes.get("experts", 4), chosen=sizes.get("chosen", 2), geometry=geometry,
    )  # fmt: skip
    net = CommitteeNet(shape, generator)
    with torch.no_grad():
        for weights in net.parameters():  # biases too: a fresh net has zeros there
            weights.add_(torch.randn(weights.shape, generator=generator) * 0.1)
    return net


def some_cases(sizes: dict[str, Any]) -> Cases:
    """Whole, with a hole, shorter, and with nothing at all."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4, sizes["channels"], sizes["steps"])).astype(np.float32)
    mask = np.ones(x.shape, bool)
    mask[1, :, 10:25] = mask[2, :, sizes["steps"] // 2 :] = mask[3] = False
    return Cases.from_windows(np.where(mask, x, 0), mask)


@pytest.mark.parametrize("centred", [(True, False), (True, True), (False, False)])
@pytest.mark.parametrize("name", SIZES)
def test_the_compiled_committee_says_what_torch_says(name: str, centred: tuple[bool, ...]) -> None:
    net = committee(SIZES[name], centred)
    series = prepare(some_cases(SIZES[name]), net.shape.geometry, torch.device("cpu"))
    ours, torchs = NumbaCommittee(net).parts(series), TorchCommittee(net).parts(series)
    for own, expected in zip(ours, torchs, strict=True):
        assert own.dtype == np.float64
        np.testing.assert_allclose(own, expected, atol=2e-6 * max(1, np.abs(expected).max()))


def test_its_units_and_context_add_up_to_logits_that_were_pooled_apart() -> None:
    sizes = SIZES["as in the balanced profile"]
    net = committee(sizes)
    series = prepare(some_cases(sizes), net.shape.geometry, torch.device("cpu"))
    logits, context, values, by_expert, _, _ = NumbaCommittee(net).parts(series)
    np.testing.assert_allclose(context + values.sum(2), logits, atol=1e-5)
    np.testing.assert_allclose(by_expert.sum(3), values, atol=1e-12)


def test_the_papers_parts_and_many_channels_are_left_to_torch() -> None:
    plain = committee(SIZES["odd numbers"])
    assert possible(plain)
    wide = committee(SIZES["odd numbers"] | {"channels": 100})
    assert not possible(wide)


EVERYWHERE = np.concatenate((np.linspace(-100, 100, 4001), np.linspace(-1e-3, 1e-3, 95))).astype(np.float32)
FUNCTIONS = {
    "exp": (products.exp, torch.exp),
    "sigmoid": (products.sigmoid, torch.sigmoid),
    "silu": (products.silu, torch.nn.functional.silu),
    "gelu": (products.gelu, torch.nn.functional.gelu),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_smooth_functions_are_right_to_the_last_digits(name: str) -> None:
    apply, reference = FUNCTIONS[name]

    def applied(values: Any) -> None:
        apply(values, 0, 4096)

    values = EVERYWHERE[:4096].copy()
    if name == "exp":
        values = np.minimum(values, np.float32(80))
    expected = reference(torch.from_numpy(values).double()).numpy()
    compiled_without_cache(applied)(values)
    np.testing.assert_allclose(values, expected, rtol=4e-7, atol=4e-7)


def compiled_without_cache(function: Any) -> Any:
    import numba

    return numba.njit(nogil=True)(function)
