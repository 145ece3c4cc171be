"""Competing kernels in numpy: the same winners as the compiled path, without numba. Pure."""

import numpy as np

from anchormoe.cases import Float64, Int64
from anchormoe.kernels import hydra
from anchormoe.kernels.grid import GridCases
from anchormoe.kernels.taps import TAPS, counted, share_over_taps, tap_sum


def pooled(
    bank: "hydra.HydraBank", cases: GridCases, tables: Float64, far_limits: Float64
) -> tuple[Float64, Float64, Float64]:
    """Features (B, F), near and far evidence (B, T, Y); without `tables` no evidence."""
    features = np.full((len(cases), len(bank.weights), 2 * hydra.RIVALS), np.nan)
    near = np.zeros((len(cases), cases.steps, tables.shape[2]))
    far = np.zeros(near.shape)
    for dilation in np.unique(bank.dilation):
        evidence = np.zeros(near.shape)
        for group in np.flatnonzero(bank.dilation == dilation):
            features[:, group], added = _compete(bank, int(group), cases, tables)
            evidence += added
        shared = share_over_taps(evidence, int(dilation), cases.step_valid)
        is_far = (TAPS - 1) * dilation + 1 > far_limits if tables.shape[2] else np.zeros(len(cases), np.bool_)
        far[is_far] += shared[is_far]
        near[~is_far] += shared[~is_far]
    return features.reshape(len(cases), -1), near, far


def _compete(bank: "hydra.HydraBank", group: int, cases: GridCases, tables: Float64) -> tuple[Float64, Float64]:
    """Features (B, 16) of one group and what its outputs add (B, T, Y)."""
    own = bank.channels[bank.channel_start[group] : bank.channel_start[group + 1]]
    dilation = int(bank.dilation[group])
    total = cases.values[:, own].sum(axis=1, dtype=np.int64) >> bank.shift[group]
    series = np.clip(total, -hydra.SERIES_LIMIT, hydra.SERIES_LIMIT)
    responses = np.stack([tap_sum(series, weights.astype(np.int64), dilation) for weights in bank.weights[group]])
    inside = np.arange(cases.steps) < cases.lengths[:, None]
    counts = counted(cases.valid[:, own], inside, np.ones(TAPS, np.int64), dilation)
    largest, smallest = responses.argmax(axis=0), responses.argmin(axis=0)  # (B, T)
    response = responses.max(axis=0)
    total = counts.sum(axis=1, keepdims=True)  # (B, 1)
    sums = (
        _summed_by(largest, counts * response) * hydra.RESPONSE_UNIT,
        _summed_by(smallest, counts.astype(np.int64)),
    )
    features = np.where(total > 0, np.concatenate(sums, axis=1) / np.maximum(total, 1), np.nan)
    if not tables.shape[2]:
        return features, np.zeros((*counts.shape, 0))
    rows = tables[group]
    added = response[:, :, None] * rows[: hydra.RIVALS][largest] + rows[hydra.RIVALS :][smallest]
    return features, added * (counts / np.maximum(total, 1))[:, :, None]


def _summed_by(winner: Int64, amount: Int64) -> Int64:
    return np.stack([np.where(winner == rival, amount, 0).sum(axis=1) for rival in range(hydra.RIVALS)], axis=1)
