"""Trains a bundle from a split: fits every seed on TRAIN, keeps the best out-of-fold, reads TEST once at the end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from anchormoe.bundle.store import Artefact
from anchormoe.bundle.usefulness import Usefulness
from anchormoe.data.dataset import Split
from anchormoe.evidence import Json
from anchormoe.metrics.evaluate import evaluate_predictions
from anchormoe.metrics.scores import label_test_figures
from anchormoe.model.calibration import log_loss_of_logits, softmax
from anchormoe.model.prediction import Prediction
from anchormoe.profiles.names import NamedBefore
from anchormoe.progress import DeferredInterrupt, Progress, ProgressCallback, silent
from anchormoe.recipes.card_plots import ScoredPredictions, card_plots
from anchormoe.recipes.fit import FittedModel, fit_model
from anchormoe.recipes.pack import build_predictor, pack_bundle
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.recipes.usefulness import judge_usefulness
from anchormoe.training.checkpoints import Checkpoints
from anchormoe.training.run_checkpoints import RunCheckpoints
from anchormoe.training.task import FitTask

CheckpointsForSeed = Callable[[int], Checkpoints | None]


@dataclass(frozen=True, slots=True)
class SeedRun:
    """One seed: `oof_loss` decides which one is kept; the prediction and the figures are of TEST."""

    seed: int
    fitted: FittedModel
    oof_loss: float
    test_prediction: Prediction
    figures: dict[str, Json]


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The content of the bundle, the run it comes from, and all runs."""

    artefact: Artefact
    best: SeedRun
    runs: tuple[SeedRun, ...]
    usefulness: Usefulness


def train_bundle(
    split: Split, settings: RecipeSettings, *, seeds: Sequence[int] = (0,), name: str = "model", version: str = "1",
    progress: ProgressCallback = silent, checkpoints: CheckpointsForSeed = lambda seed: None,
    before: NamedBefore | None = None,
) -> TrainingResult:  # fmt: skip
    """A KeyboardInterrupt out of `progress` keeps the best so far and starts no other seed. Raises DataError.

    `before` are the experts of an earlier bundle, whose names are kept where an expert is the same.
    """
    fits: list[tuple[int, FittedModel]] = []
    for seed in seeds:
        task = replace(split_task(split, settings), seed=seed, progress=progress, checkpoints=checkpoints(seed))
        fits.append((seed, fit_model(task, settings)))
        if fits[-1][1].interrupted:
            break
    deferred = DeferredInterrupt(progress)
    runs = tuple(_evaluate(split, seed, fitted, deferred) for seed, fitted in fits)
    best = min(runs, key=lambda run: run.oof_loss)
    test = best.figures | {"seeds": [_seed_facts(run) for run in runs]}
    plots = card_plots(best.fitted.report, predictions_to_plot(split, best), split.train.classes)
    usefulness = judge_usefulness(best.fitted, replace(split_task(split, settings), seed=best.seed))
    artefact = pack_bundle(
        best.fitted, split.train, name=name, version=version, test=test, extras=plots, usefulness=usefulness,
        before=before, progress=deferred,
    )  # fmt: skip
    return TrainingResult(artefact, best, runs, usefulness)


def split_task(split: Split, settings: RecipeSettings) -> FitTask:
    """TRAIN as a task, and TEST with it where the protocol chooses the epoch on it."""
    train = split.train
    test = (split.test.cases, split.test.y) if settings.protocol == "optimistic" else None
    return FitTask(
        train.cases,
        train.y,
        len(train.classes),
        groups=train.groups,
        ends=train.ends,
        device=settings.device,
        test=test,
    )


def open_checkpoints(directory: Path, split: Split, settings: RecipeSettings, *, resume: bool) -> RunCheckpoints:
    """The checkpoints of a run of `train_bundle`. Raises DataError where there is nothing that matches to resume."""
    return RunCheckpoints(directory, split_task(split, settings), settings.to_dict(), resume=resume)


def predictions_to_plot(split: Split, run: SeedRun) -> list[ScoredPredictions]:
    """For the plots of the model card, under the titles they show."""
    return [
        ScoredPredictions("TRAIN, out-of-fold", softmax(run.fitted.oof_logits), split.train.y),
        ScoredPredictions(
            label_test_figures(run.fitted.settings.protocol), run.test_prediction.probabilities, split.test.y
        ),
    ]


def _evaluate(split: Split, seed: int, fitted: FittedModel, progress: ProgressCallback) -> SeedRun:
    predictor, count = build_predictor(fitted, split.train), len(split.test)
    prediction = predictor.predict_plausible(split.test.cases, lambda done: progress(Progress("TEST", done, count)))
    figures = evaluate_predictions(predictor, split.test, mixed=split.mixed, prediction=prediction)
    return SeedRun(seed, fitted, log_loss_of_logits(fitted.oof_logits, split.train.y), prediction, figures)


def _seed_facts(run: SeedRun) -> dict[str, Json]:
    return {"seed": run.seed, "oof_loss": run.oof_loss, "accuracy": run.figures["accuracy"]}
