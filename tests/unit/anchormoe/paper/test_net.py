import dataclasses
from typing import Any

import pytest
import torch

from anchormoe.errors import ModelError
from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.losses import LossWeights, objective
from anchormoe.paper.net import PaperNet
from anchormoe.paper.output import Output
from anchormoe.paper.serving import ServingNet
from tests.support import oracle

BASE = ModelConfig(channels=3, classes=4, patch_length=6, patch_stride=3, width=16, experts=5, top_k=2, dropout=0.0)
VARIANTS = {
    "full": BASE,
    "without MVRE": dataclasses.replace(BASE, use_mvre=False),
    "without DPAR": dataclasses.replace(BASE, use_dpar=False),
    "without RGC": dataclasses.replace(BASE, use_rgc=False),
    "one expert": dataclasses.replace(BASE, experts=1, top_k=1),
    "all experts": dataclasses.replace(BASE, top_k=5),
    "two classes, one channel": dataclasses.replace(BASE, classes=2, channels=1),
    "patches of one step": dataclasses.replace(BASE, patch_length=1, patch_stride=1),
}
FIELDS = [name for name in Output._fields if name != "anchors"]


def a_net(config: ModelConfig, seed: int = 0) -> PaperNet:
    """With a class head of trained size, so that errors would show."""
    torch.manual_seed(seed)
    net = PaperNet(config).eval()
    with torch.no_grad():
        net.rgc.class_head.mul_(20)
        net.dpar.router.weight.mul_(5)
    return net


def some_windows(config: ModelConfig, B: int = 5, T: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    """Full, unequal in length, with holes, with a missing channel, fully masked."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(B, config.channels, T, generator=generator)
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[1, :, 11:] = False
    mask[2, :, 4:13] = False
    mask[3, 0] = False
    mask[4] = False
    return x * mask, mask


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS.keys())
@pytest.mark.parametrize("path", ["training", "serving"])
def test_training_and_serving_give_what_the_dense_equations_give(config: ModelConfig, path: str) -> None:
    net = a_net(config)
    x, mask = some_windows(config)
    found = net(x, mask) if path == "training" else ServingNet(net).forward(x, mask)
    expected = oracle.forward(net, x, mask)
    for name in FIELDS:
        value = torch.as_tensor(getattr(found, name))
        torch.testing.assert_close(value, getattr(expected, name), atol=1e-5, rtol=1e-5, msg=name)


def test_the_anchors_are_those_of_the_equations_and_absent_without_dpar() -> None:
    net = a_net(BASE)
    x, mask = some_windows(BASE)
    torch.testing.assert_close(net(x, mask).anchors, oracle.forward(net, x, mask).anchors)
    assert a_net(VARIANTS["without DPAR"])(x, mask).anchors is None


def gradient_of(parameter: torch.nn.Parameter) -> torch.Tensor:
    assert parameter.grad is not None
    return parameter.grad


def test_gradients_equal_those_of_the_dense_equations() -> None:
    net = a_net(BASE)
    x, mask = some_windows(BASE)
    y = torch.arange(5) % 4
    gradients = []
    for output in (net(x, mask), oracle.forward(net, x, mask)):
        net.zero_grad()
        loss = objective(output, y, LossWeights(orth=0.5, ra=0.5)).sum()
        loss.backward()
        gradients.append({name: gradient_of(parameter).clone() for name, parameter in net.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], atol=1e-5, rtol=1e-4, msg=name)


def test_without_rgc_all_valid_patches_are_admitted_equally_and_trusted_fully() -> None:
    net = a_net(VARIANTS["without RGC"])
    output = net(*some_windows(BASE))
    assert torch.equal(output.reliability, output.valid.float().unsqueeze(-1).expand_as(output.reliability))
    assert output.admission[0].unique().tolist() == [pytest.approx(1 / output.valid[0].sum().item())]


def test_without_mvre_the_other_views_have_no_weights() -> None:
    names = [name for name, _ in a_net(VARIANTS["without MVRE"]).named_parameters()]
    assert not any("spectral" in name or "context" in name or "temporal" in name for name in names)


def test_dropout_is_active_in_training_only() -> None:
    net = a_net(dataclasses.replace(BASE, dropout=0.5))
    x, mask = some_windows(BASE)
    assert torch.equal(net(x, mask).logits, net(x, mask).logits)
    net.train()
    assert not torch.equal(net(x, mask).logits, net(x, mask).logits)


def test_a_batch_without_a_valid_patch_can_be_trained_on() -> None:
    net = a_net(dataclasses.replace(BASE, dropout=0.5)).train()
    x, mask = torch.zeros(2, 3, 20), torch.zeros(2, 3, 20, dtype=torch.bool)
    loss = objective(net(x, mask), torch.tensor([0, 1]), LossWeights(orth=0.5, ra=0.5)).sum()
    loss.backward()
    assert all(torch.isfinite(gradient_of(parameter)).all() for parameter in net.parameters())


@pytest.mark.parametrize(
    "change",
    [
        {"width": 12},
        {"top_k": 6},
        {"dropout": 1.0},
        {"channels": 0},
        {"classes": 2.5},
        {"patch_stride": 7},
        {"experts": True},
    ],
)
def test_an_impossible_architecture_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        dataclasses.replace(BASE, **change)


def test_an_architecture_is_read_from_its_dict_and_unknown_or_mistyped_keys_are_refused() -> None:
    assert ModelConfig.from_dict(BASE.to_dict()) == BASE
    for wrong in ({"extra": 1}, {"use_rgc": 1}, {"dropout": "0"}):
        with pytest.raises(ModelError):
            ModelConfig.from_dict(BASE.to_dict() | wrong)
