"""Draws a bank of share-of-positive-values kernels: MiniRocket's plan of dilations, channels and thresholds. Pure."""

from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Bool, Float64, Int64
from anchormoe.kernels.ppv import POSITIVE_TAPS, PPVBank
from anchormoe.kernels.quantized import Int32, QuantizedCases
from anchormoe.kernels.taps import CENTRE, TAPS, counted, tap_sum

MOST_CHANNELS = 9
THRESHOLD_OUTPUTS = 64
"""Thresholds are quantiles of at least about this many outputs, from one case or, when cases are short, several."""
_GOLDEN = (np.sqrt(5) + 1) / 2


@dataclass(frozen=True, slots=True)
class BankPlan:
    """At most `dilations` of them, and `features` thresholds, divided evenly among the 84 kernels.

    `max_receptive_field` None: as far as the longest case allows. `pad_always`: no kernel needs its full field.
    """

    name: str
    features: int
    dilations: int = 32
    parts: tuple[int, ...] = (1,)
    difference: bool = False
    pad_always: bool = False
    max_receptive_field: int | None = None


def build_ppv(plan: BankPlan, cases: QuantizedCases, rng: np.random.Generator) -> PPVBank:
    """Thresholds come from randomly drawn cases, at quantiles that fill (0, 1) evenly."""
    cases = cases.differences() if plan.difference else cases
    dilations, counts = plan_dilations(plan, int(cases.lengths.max()))
    kernel = np.tile(np.arange(len(POSITIVE_TAPS)), len(dilations))
    dilation = np.repeat(dilations, len(POSITIVE_TAPS))
    n_biases = np.repeat(counts, len(POSITIVE_TAPS))
    level = np.arange(len(kernel)) // len(POSITIVE_TAPS)
    padded = (kernel + level) % 2 == 0 if not plan.pad_always else np.ones(len(kernel), np.bool_)
    padded |= (TAPS - 1) * dilation >= int(cases.lengths.min())
    usable = _usable_channels(cases)
    channels = [_draw_channels(usable, rng) for _ in kernel]
    # Combinations that read the same channels stand together: their channels are then summed only once.
    order = sorted(range(len(kernel)), key=lambda index: (dilation[index], tuple(channels[index])))
    kernel, padded, channels = kernel[order], padded[order], [channels[index] for index in order]
    quantiles = np.split((np.arange(1, n_biases.sum() + 1) * _GOLDEN) % 1, np.cumsum(n_biases)[:-1])
    biases = [
        _thresholds(cases, own, POSITIVE_TAPS[kernel[index]], int(dilation[index]), bool(padded[index]), levels, rng)
        for index, (own, levels) in enumerate(zip(channels, quantiles, strict=True))
    ]
    return PPVBank(
        plan.name,
        plan.difference,
        plan.parts,
        kernel,
        dilation,
        np.asarray(padded),
        _offsets(np.array([len(own) for own in channels])),
        np.concatenate(channels),
        _offsets(n_biases),
        np.concatenate(biases),
    )


def plan_dilations(plan: BankPlan, length: int) -> tuple[Int64, Int64]:
    """Dilations (ascending, spaced exponentially) and how many thresholds each kernel gets at each of them."""
    per_kernel = max(1, plan.features // len(POSITIVE_TAPS))
    levels = min(per_kernel, plan.dilations)
    longest = min(length, plan.max_receptive_field or length)
    top = max(0.0, np.log2(max(1, longest - 1) / (TAPS - 1)))
    dilations, counts = np.unique(np.logspace(0, top, levels, base=2).astype(np.int64), return_counts=True)
    counts = (counts * (per_kernel / levels)).astype(np.int64)
    for extra in range(per_kernel - int(counts.sum())):
        counts[extra % len(counts)] += 1
    return dilations, counts


def _usable_channels(cases: QuantizedCases) -> Int64:
    """Channels that ever differ from 0; all of them if none does."""
    usable = np.flatnonzero((cases.values != 0).any(axis=(0, 2)))
    return usable if len(usable) else np.arange(cases.values.shape[1])


def _draw_channels(usable: Int64, rng: np.random.Generator) -> Int64:
    most = min(len(usable), MOST_CHANNELS)
    count = int(2 ** rng.uniform(0, np.log2(most + 1)))
    return np.sort(rng.choice(usable, min(count, most), replace=False))


def _thresholds(
    cases: QuantizedCases,
    channels: Int64,
    positive: Int64,
    dilation: int,
    padded: bool,
    levels: Float64,
    rng: np.random.Generator,
) -> Int32:
    chosen = rng.integers(0, len(cases), max(1, THRESHOLD_OUTPUTS // max(1, cases.steps)))
    weights = np.where(np.isin(np.arange(TAPS), positive), 2, -1)
    series = cases.values[np.ix_(chosen, channels)].sum(axis=1, dtype=np.int64)  # (n, T)
    value = tap_sum(series, weights, dilation)
    outputs = value[_counted_outputs(cases, chosen, channels, weights, dilation, padded)]
    if not len(outputs):
        return np.zeros(len(levels), np.int32)
    return np.sort(np.floor(np.quantile(outputs, levels)).astype(np.int32))


def _counted_outputs(
    cases: QuantizedCases, chosen: Int64, channels: Int64, weights: Int64, dilation: int, padded: bool
) -> Bool:
    steps = np.arange(cases.steps)
    lengths = cases.lengths[chosen, None]
    reach = 0 if padded else CENTRE * dilation
    counts = counted(cases.valid[np.ix_(chosen, channels)], steps < lengths, np.abs(weights), dilation)
    return np.asarray(counts & (steps >= reach) & (steps < lengths - reach))


def _offsets(counts: Int64) -> Int64:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
