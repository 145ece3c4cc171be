"""From a split to a bundle's content: fit every seed on TRAIN, keep the best out-of-fold, ask TEST once at the end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anchormoe.bundle.store import Artefact
from anchormoe.cases import Cases
from anchormoe.data.dataset import Split
from anchormoe.evidence import Json
from anchormoe.metrics.evaluate import evaluate_predictions
from anchormoe.metrics.scores import label_of_test
from anchormoe.model.calibration import log_loss, softmax
from anchormoe.model.prediction import Prediction, concatenated
from anchormoe.predictor import Predictor
from anchormoe.progress import DeferredInterrupt, Progress, ProgressCallback, silent
from anchormoe.recipes.card_plots import ScoredPredictions, pictures
from anchormoe.recipes.fit import FittedModel, fit_model
from anchormoe.recipes.pack import pack_bundle, predictor_of
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.training.checkpoints import Checkpoints
from anchormoe.training.task import FitTask

CheckpointsOf = Callable[[int], Checkpoints | None]
"""Where the fit of a seed keeps its stages."""


@dataclass(frozen=True, slots=True)
class SeedRun:
    """One seed: `oof_loss` decides which one is kept; `said` and `figures` are about TEST."""

    seed: int
    fitted: FittedModel
    oof_loss: float
    said: Prediction
    figures: dict[str, Json]


@dataclass(frozen=True, slots=True)
class TrainingResult:
    artefact: Artefact
    kept: SeedRun
    runs: tuple[SeedRun, ...]


def train_bundle(
    split: Split, settings: RecipeSettings, *, seeds: Sequence[int] = (0,), name: str = "model", version: str = "1",
    progress: ProgressCallback = silent, checkpoints: CheckpointsOf = lambda seed: None,
) -> TrainingResult:  # fmt: skip
    """Raises DataError. A KeyboardInterrupt raised by `progress` keeps what can be kept, and starts no other seed."""
    fits: list[tuple[int, FittedModel]] = []
    for seed in seeds:
        fits.append((seed, _fit(split, settings, seed, progress, checkpoints(seed))))
        if fits[-1][1].interrupted:
            break
    later = DeferredInterrupt(progress)
    runs = tuple(_judged(split, seed, fitted, later) for seed, fitted in fits)
    kept = min(runs, key=lambda run: run.oof_loss)
    test = kept.figures | {"seeds": [_seed_facts(run) for run in runs]}
    extras = pictures(kept.fitted.report, shown(split, kept), split.train.classes)
    artefact = pack_bundle(kept.fitted, split.train, name=name, version=version, test=test, extras=extras)
    return TrainingResult(artefact, kept, runs)


def _fit(
    split: Split, settings: RecipeSettings, seed: int, progress: ProgressCallback, checkpoints: Checkpoints | None
) -> FittedModel:
    train = split.train
    test = (split.test.cases, split.test.y) if settings.protocol == "optimistic" else None
    task = FitTask(
        train.cases, train.y, len(train.classes), groups=train.groups, seed=seed, progress=progress,
        device=settings.device, test=test, checkpoints=checkpoints,
    )  # fmt: skip
    return fit_model(task, settings)


def _judged(split: Split, seed: int, fitted: FittedModel, progress: ProgressCallback) -> SeedRun:
    predictor = predictor_of(fitted, split.train)
    said = _said(predictor, split.test.cases, progress)
    figures = evaluate_predictions(predictor, split.test, mixed=split.mixed, said=said)
    return SeedRun(seed, fitted, log_loss(fitted.oof_logits, split.train.y), said, figures)


def _said(predictor: Predictor, cases: Cases, progress: ProgressCallback) -> Prediction:
    """Part by part, so that it can be told how far it is."""
    size, parts = predictor.config.rows, []
    for start in range(0, max(1, len(cases)), size):
        parts.append(predictor.predict_cases(cases.subset(slice(start, start + size))))
        progress(Progress("TEST", min(start + size, len(cases)), len(cases)))
    return concatenated(parts, len(cases))


def _seed_facts(run: SeedRun) -> dict[str, Json]:
    return {"seed": run.seed, "oof_loss": run.oof_loss, "accuracy": run.figures["accuracy"]}


def shown(split: Split, run: SeedRun) -> list[ScoredPredictions]:
    """What the pictures of the card judge, under the names they show."""
    return [
        ScoredPredictions("TRAIN, out-of-fold", softmax(run.fitted.oof_logits), split.train.y),
        ScoredPredictions(label_of_test(run.fitted.settings.protocol), run.said.probabilities, split.test.y),
    ]
