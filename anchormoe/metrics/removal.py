"""Removes steps from cases, most or least relevant first, by two meanings of absent. Pure."""

from typing import Literal

import numpy as np

from anchormoe.cases import Bool, Cases, Float64, Int64

Removal = Literal["mean", "missing"]
REMOVALS: tuple[Removal, ...] = ("mean", "missing")
"""`mean`: set to TRAIN's mean of the channel, as the paper has it; `missing`: marked so, as the model means it."""
Order = Literal["most", "least"]


def remove(cases: Cases, removed: Bool, how: Removal, mean: Float64) -> Cases:
    """Without the entries `removed` (N, T) or (N, C, T); `mean` (C,) is TRAIN's. What is missing stays missing."""
    chosen = removed[:, None] if removed.ndim == 2 else removed
    if how == "mean":
        x = np.where(chosen & cases.mask, mean[:, None].astype(np.float32), cases.x)
        return Cases(x, cases.mask, cases.lengths)
    mask = cases.mask & ~chosen
    return Cases(np.where(mask, cases.x, np.float32(0)), mask, cases.lengths)


def place_steps(scores: Float64, valid: Bool, *, seed: int) -> Int64:
    """(N, T) the place of every step by its score, 0 for the highest; equal ones are drawn, invalid ones come last."""
    draw = np.random.default_rng(seed).random(scores.shape)
    order = np.lexsort((draw, -scores, ~valid), axis=-1)
    return np.argsort(order, axis=-1)


def chosen_steps(place: Int64, valid: Bool, share: float, order: Order) -> Bool:
    """(N, T) the share of each case's valid steps that is most (or least) relevant; at least one step."""
    count = valid.sum(axis=1, keepdims=True)
    size = np.maximum(np.rint(share * count), 1)
    return np.asarray((place < size if order == "most" else place >= count - size) & valid)
