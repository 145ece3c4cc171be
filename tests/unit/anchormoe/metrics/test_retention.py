"""I(20): an evaluator learns from what was kept, and from its places alone."""

import numpy as np
import pytest

from anchormoe.cases import Cases, Float64
from anchormoe.metrics import evaluator_net
from anchormoe.metrics.evaluator_net import train_and_predict
from anchormoe.metrics.retention import RankedCases, Retention, measure_retention

STEPS = 20


def bumps(count: int, seed: int) -> tuple[Cases, np.ndarray, Float64]:
    """Noise with a bump of 4 steps at a random place, upwards in class 1, downwards in class 0; where it is."""
    rng = np.random.default_rng(seed)
    x, y, place = rng.normal(0, 0.3, (count, 1, STEPS)), rng.integers(0, 2, count), np.zeros((count, STEPS))
    for case, start in enumerate(rng.integers(0, STEPS - 4, count)):
        x[case, 0, start : start + 4] += 4 * y[case] - 2
        place[case, start : start + 4] = 1
    return Cases.from_arrays(x), y, place


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator_net, "UPDATES", 40)


@pytest.mark.parametrize("how", ["mean", "missing"])
def test_the_true_places_keep_the_class_and_the_others_lose_it(how: str) -> None:
    (train, y, truth), (test, test_y, test_truth) = bumps(64, 0), bumps(100, 1)
    kept, lost = (
        measure_retention(
            RankedCases(train, y, sign * truth), RankedCases(test, test_y, sign * test_truth), how, classes=2  # type: ignore[arg-type]
        )
        for sign in (1, -1)
    )  # fmt: skip
    assert kept.accuracy == 1.0
    assert lost.accuracy < 0.75
    # Where the bump lies says nothing about its class.
    assert 0.3 < kept.mask_only < 0.7


def test_a_ranking_that_tells_the_class_by_its_places_is_caught_by_the_control() -> None:
    (train, y, _), (test, test_y, _) = bumps(64, 2), bumps(100, 3)
    steps = np.arange(STEPS)
    leaking, test_leaking = (np.where(label[:, None] == 1, steps, -steps) for label in (y, test_y))
    found = measure_retention(
        RankedCases(train, y, leaking), RankedCases(test, test_y, test_leaking), "missing", classes=2
    )
    assert found.mask_only > 0.95


def test_the_evaluator_repeats_itself_and_leaves_the_callers_draws_alone() -> None:
    import torch

    cases, y, _ = bumps(32, 4)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again = (train_and_predict(cases.x, y, cases.x, classes=2, seed=3) for _ in range(2))
    assert (first == again).all()
    assert (torch.random.get_rng_state() == before).all()


def test_long_series_are_read_with_a_stride() -> None:
    x = np.random.default_rng(0).normal(size=(8, 2, 1000)).astype(np.float32)
    y = np.arange(8) % 2
    assert train_and_predict(x, y, x, classes=2, seed=0).shape == (8,)


def test_the_error_is_binomial() -> None:
    assert Retention(0.8, 0.5, 100).standard_error == pytest.approx(0.04)
