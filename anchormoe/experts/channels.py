"""Chooses the channels that a member reads where there are many, by how well simple figures tell the classes. Pure."""

from itertools import pairwise

import numpy as np

from anchormoe.cases import Bool, Cases, Float64, Int64

SEGMENTS = 4
_LEAST_VARIANCE = 1e-12


def choose_channels(cases: Cases, y: Int64, trained: Bool, *, most: int) -> tuple[tuple[int, ...], ...]:
    """For each row of `trained` (G, N) the channels, in ascending order; empty if there are at most so many.

    A channel's score is the largest share of the variance of one of its figures that lies between the classes.
    """
    if cases.channels <= most:
        return ()
    figures = channel_figures(cases)
    chosen = (np.argsort(-_scores(figures[own], y[own]), kind="stable")[:most] for own in trained)
    return tuple(tuple(sorted(int(channel) for channel in own)) for own in chosen)


def channel_figures(cases: Cases) -> Float64:
    """(N, C, F): means of segments, deviation, and mean size of the changes, of the valid steps."""
    x, mask = cases.x, cases.mask
    edges = np.linspace(0, cases.steps, SEGMENTS + 1).astype(np.int64)
    means = [_mean(x[..., a:b], mask[..., a:b]) for a, b in pairwise(edges) if b > a]
    mean = _mean(x, mask)
    deviation = np.sqrt(np.maximum(_mean(x**2, mask) - mean**2, 0))
    change = _mean(np.abs(np.diff(x)), mask[..., 1:] & mask[..., :-1])
    return np.stack((mean, *means, deviation, change), axis=-1)


def _mean(x: np.ndarray, mask: Bool) -> Float64:
    """(N, C) over the valid steps, 0 where there are none."""
    return np.asarray((x * mask).sum(-1, dtype=np.float64) / np.maximum(mask.sum(-1), 1))


def _scores(figures: Float64, y: Int64) -> Float64:
    """(C,)"""
    total = figures.var(axis=0)
    between = np.zeros_like(total)
    for label in np.unique(y):
        own = figures[y == label]
        between += len(own) / len(y) * (own.mean(axis=0) - figures.mean(axis=0)) ** 2
    return np.asarray(np.where(total > _LEAST_VARIANCE, between / np.maximum(total, _LEAST_VARIANCE), 0).max(axis=-1))
