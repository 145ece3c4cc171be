"""Simple models on the same folds, which a trained model should beat: the majority, and levels and spreads. Pure."""

import numpy as np

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.folds import Folds
from anchormoe.kernels.ridge import Problem, ridge_fit, ridge_path
from anchormoe.kernels.selection import subset_for_selection
from anchormoe.training.task import FitTask

LINEAR_CASES = 600
"""Cases per fold for the linear model; neighbouring windows say much the same."""


def majority_labels(y: Int64) -> Int64:
    """(N,) the most frequent class. Of all cases: where a recording has one class only, it is never the most frequent
    one of the others, and a majority by folds would always be wrong."""
    return np.full(len(y), np.bincount(y).argmax(), np.int64)


def linear_labels(task: FitTask, folds: Folds) -> Int64:
    """(N,) predictions of a ridge on the mean and the logarithm of the deviation of each channel."""
    features, labels = levels_and_spreads(task.cases), np.empty(len(task.y), np.int64)
    targets = np.where(task.y[:, None] == np.arange(task.n_classes), 1.0, -1.0)
    rng = np.random.default_rng(task.seed)
    for held, trained in zip(folds.held_out, folds.trained, strict=True):
        inside = np.flatnonzero(trained)
        timeline = None if task.timeline is None else task.timeline.subset(inside)
        chosen = subset_for_selection(task.y[inside], timeline, LINEAR_CASES, rng)
        timeline = None if timeline is None else timeline.subset(chosen)
        problem = Problem.of(targets[inside[chosen]], None, timeline)
        labels[held] = _ridge(features[inside[chosen]], problem, features[held]).argmax(axis=1)
    return labels


def levels_and_spreads(cases: Cases) -> Float64:
    """(N, 2 C); a channel without a valid value has the mean of the others' cases."""
    count = cases.mask.sum(axis=2)
    seen = np.maximum(count, 1)
    x = np.where(cases.mask, cases.x, 0).astype(np.float64)
    mean = x.sum(axis=2) / seen
    square = (np.where(cases.mask, x - mean[:, :, None], 0) ** 2).sum(axis=2) / seen
    both = np.concatenate([mean, np.log(np.sqrt(square) + 1e-6)], axis=1)
    return np.where(np.tile(count > 0, 2), both, np.nan)


def _ridge(x: Float64, problem: Problem, new: Float64) -> Float64:
    """(M, Y), with the strength that predicts left-out cases best."""
    known = np.isfinite(x)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, x, 0).sum(axis=0) / count
    scale = np.sqrt((np.where(known, x - mean, 0) ** 2).sum(axis=0) / count)
    scale = np.where(scale > 1e-9, scale, np.inf)
    inside, outside = (np.nan_to_num((part - mean) / scale, nan=0.0) for part in (x, new))
    gram = inside @ inside.T / inside.shape[1]
    path = ridge_path(gram, problem)
    fit = ridge_fit(gram, problem, float(path.strengths[path.best]))
    weights = inside.T @ fit.coefficients / inside.shape[1]
    return np.asarray(problem.mean_target + (outside - inside.mean(axis=0)) @ weights)
