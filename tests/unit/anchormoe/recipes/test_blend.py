"""The blend: who counts how much, and when the experts must stay silent."""

import numpy as np
import pytest

from anchormoe.recipes.blend import TOLERANCE, choose_blend, standard_error

Y = np.arange(80) % 2
SIGNAL = np.where(Y[:, None] == np.arange(2), 1.0, -1.0)


def noise(amount: float, seed: int) -> np.ndarray:
    return amount * np.random.default_rng(seed).normal(size=SIGNAL.shape)


@pytest.mark.parametrize("seed", range(4))
def test_a_useless_source_does_no_harm_on_fresh_cases(seed: int) -> None:
    blend = choose_blend(SIGNAL + noise(1.2, seed), noise(1, seed + 100), Y)
    rng = np.random.default_rng(seed + 200)
    truth = np.tile(SIGNAL, (25, 1))
    kernel, experts = truth + 1.2 * rng.normal(size=truth.shape), rng.normal(size=truth.shape)
    blended = (blend.kernel * kernel + blend.experts * experts).argmax(1) == truth.argmax(1)
    assert blended.mean() >= (kernel.argmax(1) == truth.argmax(1)).mean() - 0.03


def test_a_source_that_hardly_varies_is_silenced() -> None:
    blend = choose_blend(SIGNAL + noise(1.2, 0), np.full_like(SIGNAL, 1e-9), Y)
    assert blend.experts == 0.0
    assert blend.kernel > 0


def test_two_sources_with_independent_errors_share() -> None:
    blend = choose_blend(SIGNAL + noise(1.2, 0), SIGNAL + noise(1.2, 1), Y)
    assert 0.2 <= blend.share <= 0.8
    least = min(loss for _, loss in blend.log_losses)
    assert dict(blend.log_losses)[blend.share] <= least + 0.02


def test_experts_that_are_almost_as_sure_are_heard() -> None:
    y = np.arange(600) % 2
    signal = np.where(y[:, None] == np.arange(2), 1.0, -1.0)
    doubtful = signal.copy()
    doubtful[:4] *= -0.2
    blend = choose_blend(signal, doubtful, y)
    losses, accuracies = dict(blend.log_losses), dict(blend.accuracies)
    assert blend.share >= 0.4
    assert losses[blend.share] <= min(losses.values()) + TOLERANCE
    assert accuracies[blend.share] == 1.0


def test_the_default_gives_no_accuracy_away_on_few_cases() -> None:
    experts = SIGNAL.copy()
    experts[0] *= -1
    blend = choose_blend(SIGNAL + noise(0.2, 0), experts, Y)
    accuracies = dict(blend.accuracies)
    assert accuracies[blend.share] == 1.0
    assert accuracies[1.0] < 1.0


@pytest.mark.parametrize("seed", range(6))
def test_the_default_is_right_at_least_as_often_as_its_better_source(seed: int) -> None:
    kernel, experts = SIGNAL + noise(1.5, seed), SIGNAL + noise(1.1, seed + 50)
    blend = choose_blend(kernel, experts, Y)
    accuracies = dict(blend.accuracies)
    assert accuracies[blend.share] >= max(accuracies[0.0], accuracies[1.0])


def test_a_sure_source_that_is_wrong_more_often_does_not_win_by_its_log_loss() -> None:
    """The experts are sure of 76 cases and wrong about 4; the kernel is right about all, though hardly sure of any."""
    y = np.arange(80) % 2
    experts, kernel = 4 * SIGNAL, np.zeros_like(SIGNAL)
    experts[:4] *= -0.01
    kernel[:] = SIGNAL * np.where(np.arange(80) % 3 == 0, 0.01, 3.0)[:, None]
    kernel[:4] = 0.001 * SIGNAL[:4]
    blend = choose_blend(kernel, experts, y)
    blended = blend.kernel * kernel + blend.experts * experts
    assert dict(blend.accuracies)[1.0] == 0.95
    assert (blended.argmax(1) == y).all()


def test_localize_takes_the_largest_share_that_is_as_accurate() -> None:
    both_right = choose_blend(SIGNAL, SIGNAL * 0.5, Y, objective="localize")
    assert both_right.share == 1.0
    assert both_right.kernel == 0.0


def test_localize_does_not_give_accuracy_away() -> None:
    blend = choose_blend(SIGNAL, noise(1, 1), Y, objective="localize")
    accuracies = dict(blend.accuracies)
    assert accuracies[blend.share] >= 1.0 - standard_error(np.ones(80))


def test_the_standard_error_counts_groups_not_their_cases() -> None:
    right = np.repeat([1.0, 0.0, 1.0, 0.0], 25)
    assert standard_error(right) == pytest.approx(0.05)
    assert standard_error(right, np.repeat(np.arange(4), 25)) == pytest.approx(0.25)
