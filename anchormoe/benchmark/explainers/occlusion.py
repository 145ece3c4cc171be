"""Occlusion (Zeiler and Fergus, 2014): the fall of the score when a patch, or one channel of it, is TRAIN's mean."""

import numpy as np
import torch
from torch import Tensor

from anchormoe.benchmark.explainers.task import Explain, ExplainedModel, Explanation, SeriesBatch
from anchormoe.cases import Float64
from anchormoe.evidence import Patching, patch_grid
from anchormoe.metrics.occlusion import mean_over_patches


def prepare(model: ExplainedModel, train: SeriesBatch, seed: int) -> Explain:
    def explain(batch: SeriesBatch) -> Explanation:
        steps, channels = batch.x.shape[2], batch.x.shape[1]
        patching = Patching.for_steps(steps)
        grid = patch_grid(steps, patching.length, patching.stride)
        base = _scores(model, batch, batch.x)
        whole = np.stack([base - _without(model, batch, slice(None), a, b) for a, b in zip(*grid, strict=True)], axis=1)
        valid = batch.mask.numpy()
        values = np.zeros(tuple(batch.x.shape))
        for channel in range(channels):
            falls = [base - _without(model, batch, channel, a, b) for a, b in zip(*grid, strict=True)]
            values[:, channel] = mean_over_patches(np.stack(falls, axis=1), grid, steps)
        over_time = mean_over_patches(whole, grid, steps) * valid.any(axis=1)
        return Explanation(values * valid, over_time)

    return explain


def _without(model: ExplainedModel, batch: SeriesBatch, channel: int | slice, start: int, stop: int) -> Float64:
    x = batch.x.clone()
    x[:, channel, start:stop] = 0
    return _scores(model, batch, x)


def _scores(model: ExplainedModel, batch: SeriesBatch, x: Tensor) -> Float64:
    """(N,) the predicted class's logit minus the mean over classes."""
    with torch.no_grad():
        logits = model.logits(x, batch.mask).double()
    return np.asarray((logits[torch.arange(len(x)), batch.label] - logits.mean(dim=1)).numpy())
