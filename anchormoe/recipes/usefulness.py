"""Judges a fitted model on its out-of-fold predictions, beside simple baselines on the same folds. Pure."""

import numpy as np

from anchormoe.bundle.usefulness import Baseline, Usefulness, judge
from anchormoe.cases import Float64, Int64
from anchormoe.metrics.scores import balanced_accuracy, class_scores, confusion
from anchormoe.recipes.baselines import linear_labels, majority_labels
from anchormoe.recipes.fit import CALIBRATION_FOLDS, FittedModel
from anchormoe.training.task import FitTask

MAJORITY, LINEAR = "the majority class", "a linear model on levels and spreads"
ALONE = "the {} alone"


def judge_usefulness(fitted: FittedModel, task: FitTask) -> Usefulness:
    """`task` is TRAIN as it was fitted."""
    folds = task.folds(CALIBRATION_FOLDS)
    predicted = {
        MAJORITY: majority_labels(task.y),
        LINEAR: linear_labels(task, folds),
        **{ALONE.format(name): logits.argmax(axis=1) for name, logits in _alone(fitted).items()},
    }
    own = np.asarray(fitted.oof_logits.argmax(axis=1), np.int64)
    scores = class_scores(confusion(task.y, own, task.n_classes))
    recalls = {str(label): (score.recall, score.cases) for label, score in enumerate(scores)}
    baselines = tuple(_baseline(name, labels, own, task) for name, labels in predicted.items())
    unknown = fitted.model.abstention.unknown
    return judge(float((own == task.y).mean()), recalls, 0.0 if unknown is None else unknown, baselines)


def _alone(fitted: FittedModel) -> dict[str, Float64]:
    """Out-of-fold logits of each source of a blend; none where there is only one."""
    return dict(fitted.oof_by_source) if len(fitted.oof_by_source) > 1 else {}


def _baseline(name: str, labels: Int64, own: Int64, task: FitTask) -> Baseline:
    gain = (labels == task.y).astype(np.float64) - (own == task.y)
    error = float(gain.std() / np.sqrt(len(gain)))
    balanced = balanced_accuracy(confusion(task.y, labels, task.n_classes))
    own_balanced = balanced_accuracy(confusion(task.y, own, task.n_classes))
    ahead = bool(gain.mean() > error and balanced > own_balanced) or (name == MAJORITY and own_balanced <= balanced)
    return Baseline(name, float((labels == task.y).mean()), balanced, ahead)
