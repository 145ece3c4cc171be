"""Each explainer against a model whose right explanation is known by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from anchormoe.benchmark.explainers import dynamask, fit, timex
from anchormoe.benchmark.explainers.models import EmbeddingNet
from anchormoe.benchmark.explainers.registry import EXPLAINERS, Needs
from anchormoe.benchmark.explainers.task import Explanation, SeriesBatch
from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.mvre import fourier_basis
from anchormoe.paper.net import PaperNet
from anchormoe.paper.serving import ServingNet

CHANNELS, STEPS = 2, 12
WEIGHTS = torch.arange(CHANNELS * STEPS, dtype=torch.float32).reshape(CHANNELS, STEPS) / 10 - 1
CHANNEL, STEP = 1, 7
"""What the model that reads a single value reads."""


class Linear(nn.Module):
    """u = (w·x, −w·x): centred already, so that the first class's explanation is w·x, value by value."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = nn.Parameter(weights.clone())

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.embed(x, mask)[1]

    def embed(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        score = (self.weights * x * mask).sum(dim=(1, 2))
        logits = torch.stack((score, -score), dim=1)
        return torch.stack((score, torch.ones_like(score)), dim=1), logits


class Rectified(nn.Module):
    """u = (relu(w·x − 1), 0): DeepLIFT and the gradient differ, because the activation is a module."""

    def __init__(self) -> None:
        super().__init__()
        self.activation = nn.ReLU()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        score = self.activation((x * mask).sum(dim=(1, 2), keepdim=True)[..., 0] - 1)
        return torch.cat((2 * score, torch.zeros_like(score)), dim=1)


class Model:
    offers: frozenset[Needs] = frozenset({"logits", "gradients", "embedding"})

    def __init__(self, net: nn.Module) -> None:
        self._net = net

    def network(self) -> nn.Module:
        import copy

        return copy.deepcopy(self._net).eval()

    def logits(self, x: Tensor, mask: Tensor) -> Tensor:
        with torch.no_grad():
            return self._net(x, mask)  # type: ignore[no-any-return]


def _batch(cases: int, *, seed: int = 0, label: int = 0) -> SeriesBatch:
    x = torch.randn(cases, CHANNELS, STEPS, generator=torch.Generator().manual_seed(seed))
    return SeriesBatch(x, torch.ones_like(x, dtype=torch.bool), torch.full((cases,), label))


def _explain(name: str, net: nn.Module, batch: SeriesBatch, train: SeriesBatch) -> Explanation:
    explainer = next(one for one in EXPLAINERS if one.name == name)
    return explainer.load()(Model(net), train, 0)(batch)


def _single_value() -> nn.Module:
    weights = torch.zeros(CHANNELS, STEPS)
    weights[CHANNEL, STEP] = 4.0
    return Linear(weights)


def test_there_are_the_papers_nine_explainers_and_occlusion() -> None:
    assert len([one for one in EXPLAINERS if one.paper_name]) == 9
    assert [one.name for one in EXPLAINERS if not one.paper_name] == ["occlusion"]


@pytest.mark.parametrize("name", ["input-gradient", "integrated-gradients", "deeplift"])
def test_on_a_linear_model_three_methods_give_weight_times_value(name: str) -> None:
    batch = _batch(3)
    found = _explain(name, Linear(WEIGHTS), batch, _batch(4, seed=1))
    assert found.values == pytest.approx((WEIGHTS * batch.x).numpy(), abs=1e-5)


def test_vanilla_is_the_size_of_the_weight() -> None:
    found = _explain("vanilla", Linear(WEIGHTS), _batch(2), _batch(4, seed=1))
    assert found.values == pytest.approx(WEIGHTS.abs().expand(2, -1, -1).numpy(), abs=1e-6)


def test_deepshap_on_a_linear_model_measures_from_the_mean_of_train() -> None:
    batch, train = _batch(3), _batch(16, seed=1)
    found = _explain("deepshap", Linear(WEIGHTS), batch, train)
    assert found.values == pytest.approx((WEIGHTS * (batch.x - train.x.mean(dim=0))).numpy(), abs=1e-4)


def test_deeplift_says_that_it_equals_input_gradient_where_there_is_no_activation_module() -> None:
    facts = _explain("deeplift", Linear(WEIGHTS), _batch(3), _batch(4, seed=1)).facts
    assert facts["difference_to_input_gradient"] == 0
    assert facts["convergence_delta"] == pytest.approx(0, abs=1e-5)


def test_deeplift_of_a_rectifier_adds_up_where_input_gradient_does_not() -> None:
    x = torch.full((1, CHANNELS, STEPS), 0.5)  # the sum is 12: u = 2 · (12 − 1) = 22, centred 11, and 0 at the baseline
    batch = SeriesBatch(x, torch.ones_like(x, dtype=torch.bool), torch.zeros(1, dtype=torch.int64))
    found = _explain("deeplift", Rectified(), batch, batch)
    assert found.values.sum() == pytest.approx(11, abs=1e-3)
    assert found.facts["convergence_delta"] == pytest.approx(0, abs=1e-3)
    assert found.facts["difference_to_input_gradient"] > 0.01  # Input × Gradient adds up to 12
    assert _explain("input-gradient", Rectified(), batch, batch).values.sum() == pytest.approx(12, abs=1e-4)


@pytest.mark.parametrize("name", ["dynamask", "fit", "timex", "occlusion"])
def test_the_only_value_that_a_model_reads_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "EPOCHS", 4)
    batch, train = _batch(6, seed=2), _batch(128, seed=1)
    batch.x[:, CHANNEL, STEP] = 1.5  # far from the mean, so that it matters in every case
    found = _explain(name, _single_value(), batch, train).values
    by_value = found.mean(axis=0)
    if name == "occlusion":  # finds the patch of two steps that holds the value
        assert set(np.argwhere(by_value == by_value.max())[:, 1].tolist()) == {6, 7}
        assert by_value[0].max() == pytest.approx(0)
        assert by_value[CHANNEL, STEP] == pytest.approx(6.0)  # 4 · 1.5, whole
    else:
        assert np.unravel_index(by_value.argmax(), by_value.shape) == (CHANNEL, STEP)


def test_dynamask_keeps_the_area_it_is_asked_for() -> None:
    keep = torch.tensor([[[0.9, 0.1, 0.0, 0.0, 0.0]]])
    mask = torch.tensor([[[True, True, True, True, False]]])
    # A quarter of four valid values is one: distances .1² + .1² over four.
    assert dynamask._size_distance(keep, mask, 0.25).item() == pytest.approx((0.01 + 0.01) / 4)


def test_a_gaussian_conditioned_on_one_channel_moves_the_other() -> None:
    mean, covariance = torch.tensor([[0.0, 1.0]]), torch.tensor([[[4.0, 2.0], [2.0, 3.0]]])
    moved, rest = fit.conditional(mean, covariance, 0, torch.tensor([2.0]))
    assert moved.tolist() == [[2.0, 2.0]]  # 1 + 2/4 · 2
    assert rest[0, 1, 1].item() == pytest.approx(2.0)  # 3 − 2·2/4
    assert rest[0, 0].abs().max().item() == 0


def test_what_comes_after_a_step_does_not_change_fits_answer_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "EPOCHS", 1)
    batch, train = _batch(2, seed=2), _batch(8, seed=1)
    later = SeriesBatch(batch.x.clone(), batch.mask, batch.label)
    later.x[:, :, 6:] += 3
    one, other = (_explain("fit", Linear(WEIGHTS), each, train).values for each in (batch, later))
    assert one[:, :, :6] == pytest.approx(other[:, :, :6])


def test_timex_pays_nothing_for_behaving_like_the_model() -> None:
    embedding, logits = torch.randn(5, 3), torch.randn(5, 2)
    same = (embedding, logits)
    assert timex.behaviour_distance(same, (2 * embedding, logits)).item() == pytest.approx(0, abs=1e-9)
    assert timex.behaviour_distance(same, (embedding.flip(0), logits)).item() > 0


@pytest.mark.parametrize("name", [one.name for one in EXPLAINERS])
def test_missing_values_get_no_attribution(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "EPOCHS", 1)
    monkeypatch.setattr(dynamask, "UPDATES", 3)
    monkeypatch.setattr(timex, "EPOCHS", 1)
    batch = _batch(2)
    batch.mask[:, :, 9:] = False
    batch.x[:, :, 9:] = 0
    found: Any = _explain(name, Linear(WEIGHTS), batch, _batch(8, seed=1)).values
    assert found.shape == (2, CHANNELS, STEPS)
    assert np.isfinite(found).all()
    assert (found[:, :, 9:] == 0).all()


def test_a_net_that_was_served_first_still_has_a_gradient() -> None:
    net = PaperNet(ModelConfig(2, 3, 12, 6, width=16)).eval()
    x = torch.randn(1, 2, 48)
    mask = torch.ones_like(x, dtype=torch.bool)
    fourier_basis.cache_clear()
    ServingNet(net).forward(x, mask)  # in inference mode, which is what fills the cache
    whole = EmbeddingNet(net, 1.0, torch.zeros(3))
    asked = x.clone().requires_grad_()
    whole(asked, mask).sum().backward()
    assert asked.grad is not None
    assert asked.grad.abs().sum() > 0
