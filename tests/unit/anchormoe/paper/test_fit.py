import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from anchormoe.cases import Cases, Float64
from anchormoe.errors import DataError
from anchormoe.paper.fit import best_common_epoch, fit_paper, tempered_loss
from anchormoe.paper.loop import TrainingHistory
from anchormoe.paper.settings import PaperSettings
from anchormoe.progress import Progress
from anchormoe.training.checkpoints import DirectoryCheckpoints
from anchormoe.training.task import FitTask

QUICK = PaperSettings(epochs=4, width=16, experts=2, batch_size=8, patch_length=4, learning_rate=0.01)


def a_problem(count: int = 24, classes: int = 2, seed: int = 0) -> tuple[Cases, np.ndarray]:
    """A bump whose sign is the class, somewhere in noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % classes
    x = rng.normal(scale=0.2, size=(count, 2, 16))
    for case, label in enumerate(y):
        start = rng.integers(0, 12)
        x[case, 0, start : start + 4] += 2.0 * (1 if label == 0 else -label)
    return Cases.from_arrays(x), y.astype(np.int64)


@pytest.mark.slow
def test_an_easy_problem_is_learned_and_out_of_fold_logits_are_right() -> None:
    cases, y = a_problem(60)
    settings = PaperSettings(epochs=25, width=16, experts=2, batch_size=8, patch_length=4, learning_rate=0.01)
    fit = fit_paper(FitTask(cases, y, 2), settings)
    assert (fit.oof_logits.argmax(axis=1) == y).mean() > 0.9
    fresh, truth = a_problem(60, seed=1)
    assert (fit.source.forward(fresh).logits.argmax(axis=1) == truth).mean() > 0.9


def test_two_runs_with_the_same_seed_are_equal_and_another_seed_is_not() -> None:
    cases, y = a_problem()
    first, second, other = (fit_paper(FitTask(cases, y, 2, seed=seed), QUICK) for seed in (3, 3, 4))
    assert np.array_equal(first.oof_logits, second.oof_logits)
    for name, value in first.source.tensors().items():
        assert np.array_equal(value, second.source.tensors()[name])
    assert not np.array_equal(first.oof_logits, other.oof_logits)


def test_the_report_is_json_and_names_the_honest_protocol() -> None:
    cases, y = a_problem()
    report = fit_paper(FitTask(cases, y, 2), QUICK).report
    assert json.loads(json.dumps(report))["protocol"] == "honest"
    assert report["epochs"] == 2
    assert [len(curve) for curve in report["curves"]] == [2, 2, 2, 2]


def test_from_sixty_cases_on_the_folds_choose_the_epoch() -> None:
    cases, y = a_problem(60)
    report = fit_paper(FitTask(cases, y, 2), QUICK).report
    means = np.mean([[epoch["validation_loss"] for epoch in curve] for curve in report["curves"][:3]], axis=0)
    assert len(means) == 4
    assert report["epochs"] == means.argmin() + 1


def test_with_test_cases_the_epoch_is_the_best_on_test_and_the_report_says_optimistic() -> None:
    cases, y = a_problem()
    test, truth = a_problem(seed=1)
    fit = fit_paper(FitTask(cases, y, 2, test=(test, truth)), QUICK)
    accuracies = [figures["validation_accuracy"] for figures in fit.report["curves"][-1]]
    assert fit.report["protocol"] == "optimistic"
    assert (fit.source.forward(test).logits.argmax(axis=1) == truth).mean() == pytest.approx(max(accuracies))
    assert accuracies[fit.report["epochs"] - 1] == max(accuracies)


def test_the_best_common_epoch_has_the_least_mean_loss_of_those_every_fold_reached() -> None:
    def history(*losses: float) -> TrainingHistory:
        figures = [{"validation_loss": loss} for loss in losses]
        return TrainingHistory(len(losses), 1, figures, [None] * len(losses), interrupted=False)  # type: ignore[list-item]

    assert best_common_epoch([history(3, 1, 2), history(3, 3, 1, 0)]) == 3
    assert best_common_epoch([history(3, 1), history(3, 3, 0)]) == 2


def test_the_validation_loss_ignores_overconfidence_but_not_errors() -> None:
    logits, y, share = (
        torch.tensor([[0.0, 2.0], [2.0, 0.0], [0.0, 2.0]]),
        torch.tensor([1, 0, 0]),
        torch.full((3,), 1 / 3),
    )
    plain = tempered_loss(logits, y, share)
    assert tempered_loss(4 * logits, y, share) == pytest.approx(plain, abs=0.01)
    assert tempered_loss(logits, torch.tensor([1, 0, 1]), share) < 0.01 < plain


@pytest.mark.parametrize("labels", [[0] * 11 + [1], list(range(12)), [0, 1], [0], [2, 2, 2]])
def test_tiny_and_single_case_classes_do_not_fail(labels: list[int]) -> None:
    cases, _ = a_problem(len(labels))
    fit = fit_paper(FitTask(cases, np.array(labels), 12), QUICK)
    assert fit.oof_logits.shape == (len(labels), 12)
    assert np.isfinite(fit.oof_logits).all()


@pytest.mark.slow
def test_a_group_is_never_trained_on_and_held_out_at_once() -> None:
    """Each group has a channel of its own: whoever did not see the group cannot know its class."""
    groups = np.repeat(np.arange(12), 5)
    y = groups % 3
    x = np.random.default_rng(0).normal(0, 0.1, (60, 12, 16))
    x[np.arange(60), groups] += 2
    cases = Cases.from_arrays(x)
    settings = PaperSettings(epochs=10, width=16, experts=2, batch_size=4, patch_length=4, learning_rate=0.02)
    accuracy = [
        (fit_paper(FitTask(cases, y, 3, groups=known), settings).oof_logits.argmax(axis=1) == y).mean()
        for known in (None, groups)
    ]
    assert accuracy[0] > 0.8
    assert accuracy[1] < 0.5


def test_cases_of_weight_zero_change_nothing() -> None:
    cases, y = a_problem()
    weight = np.ones(24)
    weight[:6] = 0
    changed = Cases(cases.x.copy(), cases.mask, cases.lengths)
    changed.x[:6] = 7
    fits = [fit_paper(FitTask(one, y, 2, sample_weight=weight), QUICK) for one in (cases, changed)]
    assert fits[0].report["curves"] == fits[1].report["curves"]


def test_balanced_classes_weigh_the_same_in_total() -> None:
    from anchormoe.paper.fit import _case_weights

    task = FitTask(Cases.from_arrays(np.zeros((4, 1, 8))), np.array([0, 0, 0, 1]), 2)
    weight = _case_weights(task, PaperSettings(class_weight="balanced"))
    assert weight.tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2])


@pytest.mark.parametrize("weight", [np.zeros(24), np.full(24, np.nan), -np.ones(24), np.ones(3)])
def test_impossible_weights_are_refused(weight: Float64) -> None:
    cases, y = a_problem()
    with pytest.raises(DataError, match="sample_weight"):
        fit_paper(FitTask(cases, y, 2, sample_weight=weight), QUICK)


def test_a_constant_a_missing_channel_and_a_fully_masked_case_can_be_fitted() -> None:
    cases, y = a_problem()
    cases.x[:, 1] = 0
    cases.mask[:, 1] = False
    cases.x[5] = 0
    cases.mask[5] = False
    fit = fit_paper(FitTask(cases, y, 2), QUICK)
    assert np.isfinite(fit.oof_logits).all()
    assert not fit.source.forward(cases.subset([5])).logits.any()


@pytest.mark.parametrize("stage", ["fold 1", "fold 2", "all cases"])
def test_an_interrupt_keeps_the_best_so_far(stage: str) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.stage == stage and progress.done == 2:
            raise KeyboardInterrupt

    cases, y = a_problem()
    settings = PaperSettings(epochs=6, width=16, experts=2, batch_size=8, patch_length=4, patience_share=1.0)
    fit = fit_paper(FitTask(cases, y, 2, progress=interrupt), settings)
    assert fit.report["interrupted"] is (stage != "all cases" or fit.report["epochs"] == 2)
    assert np.isfinite(fit.source.forward(cases).logits).all()


def test_a_resumed_fit_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def die(progress: Progress) -> None:
        if progress.stage == "fold 2" and progress.done == 2:
            raise Killed

    cases, y = a_problem()
    settings = replace(QUICK, epochs=8)
    whole = fit_paper(FitTask(cases, y, 2), settings)
    with pytest.raises(Killed):
        fit_paper(FitTask(cases, y, 2, progress=die, checkpoints=DirectoryCheckpoints(tmp_path)), settings)
    stages: list[str] = []
    resumed = fit_paper(
        FitTask(
            cases,
            y,
            2,
            progress=lambda progress: stages.append(f"{progress.stage}: {progress.done}"),
            checkpoints=DirectoryCheckpoints(tmp_path),
        ),
        settings,
    )
    assert stages[0] == "fold 2: 3"
    assert np.array_equal(resumed.oof_logits, whole.oof_logits)
    for name, value in whole.source.tensors().items():
        assert np.array_equal(value, resumed.source.tensors()[name])
