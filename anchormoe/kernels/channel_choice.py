"""Which of very many channels the kernels read: those whose levels, spreads and changes tell classes apart. Pure."""

from dataclasses import replace

import numpy as np

from anchormoe.cases import Alignment, Float64, Int64
from anchormoe.kernels.means import MeanBank, Quantity
from anchormoe.kernels.quantized import QuantizedCases, usable_channels
from anchormoe.kernels.ridge import Problem

MIN_CHANNELS, MAX_CHANNELS = 8, 64
"""Drawn at random among more channels, hardly any kernel would read one that matters, and evidence of hundreds of
channels is read by nobody."""
_QUANTITIES: tuple[Quantity, ...] = ("level", "spread", "change")
_SHRINKAGE = 0.1
"""Of the ridge on a channel's features, in units of their variance: there may be as many features as cases."""


def choose_channels(cases: QuantizedCases, problem: Problem, alignment: Alignment, rng: np.random.Generator) -> Int64:
    """All usable channels (ascending) if there are no more than MAX_CHANNELS.

    Else those, between MIN_CHANNELS and MAX_CHANNELS, that explain more alone than any does of classes dealt out at
    random: among thousands of channels some seem to tell a few cases apart by chance. Only cases of TRAIN may be given,
    and in a fold only those it trains on; a choice that has seen the others would make left-out errors too small.
    """
    usable = usable_channels(cases)
    if len(usable) <= MAX_CHANNELS:
        return usable
    shuffled = replace(problem, targets=rng.permutation(problem.targets))
    scores, by_chance = np.empty((2, len(usable)))
    for start in range(0, len(usable), MAX_CHANNELS):  # some at a time: their features take memory
        part = slice(start, start + MAX_CHANNELS)
        features = _features(cases, usable[part], alignment)
        scores[part], by_chance[part] = _explained(features, problem), _explained(features, shuffled)
    count = int(np.clip((scores > by_chance.max()).sum(), MIN_CHANNELS, MAX_CHANNELS))
    return np.sort(usable[np.argsort(-scores, kind="stable")[:count]])


def _features(cases: QuantizedCases, channels: Int64, alignment: Alignment) -> Float64:
    """(C, N, q): of the whole case and, where events have a fixed place in it, of its quarters."""
    segments = (1, 4) if alignment == "aligned" else (1,)
    quantities = _QUANTITIES if cases.steps > 1 else _QUANTITIES[:1]
    found = [
        MeanBank("", quantity, count, channels).transform(cases).reshape(len(cases), count, len(channels))
        for count in segments
        for quantity in quantities
    ]
    return np.nan_to_num(np.concatenate(found, axis=1).transpose(2, 0, 1), nan=0.0)


def _explained(features: Float64, problem: Problem) -> Float64:
    """(C,) share of the targets' variance that a ridge on each channel's features (C, N, q) explains."""
    root = problem.root[:, None]
    targets = (problem.targets - problem.mean_target) * root
    centred = features - np.einsum("cnq,n->cq", features, problem.case_weight)[:, None]
    deviation = np.sqrt(np.einsum("cnq,n->cq", centred**2, problem.case_weight))[:, None]
    scaled = np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 1e-6) * root
    scatter = scaled.swapaxes(1, 2) @ scaled  # (C, q, q)
    scatter += _SHRINKAGE * len(targets) * np.eye(scatter.shape[1])
    products = scaled.swapaxes(1, 2) @ targets  # (C, q, Y)
    return np.asarray((products * np.linalg.solve(scatter, products)).sum(axis=(1, 2)) / (targets**2).sum())
