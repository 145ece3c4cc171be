"""Draws a bank of PPV kernels: dilations and thresholds as in MiniRocket, each kernel on one channel. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anchormoe.cases import Bool, Float64, Int64
from anchormoe.kernels.ppv import POSITIVE_TAPS, PPVBank
from anchormoe.kernels.quantized import Int32, QuantizedCases, usable_channels
from anchormoe.kernels.settings import long_reach
from anchormoe.kernels.taps import CENTRE, TAPS, counted_outputs, tap_sum

THRESHOLD_OUTPUTS = 64
"""Thresholds are quantiles of about this many outputs or more: of one case or, if cases are short, of several."""
_GOLDEN = (np.sqrt(5) + 1) / 2


@dataclass(frozen=True, slots=True)
class PPVSettings:
    """`features` thresholds, divided evenly among the 84 kernels, at no more than `max_dilations` dilations.

    `max_receptive_field` None: as far as the longest case allows. `pad_always`: no kernel needs its full field.
    """

    name: str
    features: int
    max_dilations: int = 32
    parts: tuple[int, ...] = (1,)
    difference: bool = False
    pad_always: bool = False
    max_receptive_field: int | None = None


class _Combinations(NamedTuple):
    """n combinations of a kernel, a dilation and a channel."""

    kernel: Int64
    dilation: Int64
    padded: Bool
    channel: Int64
    n_biases: Int64


def build_ppv(
    settings: PPVSettings, cases: QuantizedCases, rng: np.random.Generator, channels: Int64 | None = None
) -> PPVBank:
    """1. draw the combinations, 2. draw their thresholds from random cases, at quantiles that fill (0, 1) evenly.

    `channels` None: all usable ones.
    """
    channels = usable_channels(cases) if channels is None else channels
    cases = cases.differences() if settings.difference else cases
    drawn = _draw_combinations(settings, cases, rng, channels)
    biases = _draw_biases(drawn, cases, rng)
    return PPVBank(
        settings.name,
        settings.difference,
        settings.parts,
        long_reach(int(cases.lengths.max())),
        drawn.kernel,
        drawn.dilation,
        drawn.padded,
        np.arange(len(drawn.channel) + 1),
        drawn.channel,
        _offsets(drawn.n_biases),
        np.concatenate(biases),
    )


def choose_dilations(settings: PPVSettings, length: int) -> tuple[Int64, Int64]:
    """Dilations (ascending, spaced exponentially) and how many thresholds each kernel gets at each of them."""
    per_kernel = max(1, settings.features // len(POSITIVE_TAPS))
    levels = min(per_kernel, settings.max_dilations)
    longest = min(length, settings.max_receptive_field or length)
    top = max(0.0, np.log2(max(1, longest - 1) / (TAPS - 1)))
    dilations, counts = np.unique(np.logspace(0, top, levels, base=2).astype(np.int64), return_counts=True)
    counts = (counts * (per_kernel / levels)).astype(np.int64)
    for extra in range(per_kernel - int(counts.sum())):
        counts[extra % len(counts)] += 1
    return dilations, counts


def _draw_combinations(
    settings: PPVSettings, cases: QuantizedCases, rng: np.random.Generator, channels: Int64
) -> _Combinations:
    """Sorted by dilation, then by channel: the evidence of kernels that share both is spread over steps at once."""
    dilations, counts = choose_dilations(settings, int(cases.lengths.max()))
    kernel = np.tile(np.arange(len(POSITIVE_TAPS)), len(dilations))
    dilation = np.repeat(dilations, len(POSITIVE_TAPS))
    level = np.arange(len(kernel)) // len(POSITIVE_TAPS)
    padded = (kernel + level) % 2 == 0 if not settings.pad_always else np.ones(len(kernel), np.bool_)
    padded |= (TAPS - 1) * dilation >= int(cases.lengths.min())
    channel = rng.choice(channels, len(kernel))
    order = np.lexsort((channel, dilation))
    return _Combinations(
        kernel[order], dilation, np.asarray(padded[order]), channel[order], np.repeat(counts, len(POSITIVE_TAPS))
    )


def _draw_biases(drawn: _Combinations, cases: QuantizedCases, rng: np.random.Generator) -> list[Int32]:
    """Sorted, for each combination."""
    total = int(drawn.n_biases.sum())
    quantiles = np.split((np.arange(1, total + 1) * _GOLDEN) % 1, np.cumsum(drawn.n_biases)[:-1])
    return [_draw_thresholds(drawn, index, cases, levels, rng) for index, levels in enumerate(quantiles)]


def _draw_thresholds(
    drawn: _Combinations, index: int, cases: QuantizedCases, levels: Float64, rng: np.random.Generator
) -> Int32:
    """The quantiles `levels` of a combination's outputs on randomly drawn cases."""
    channel, dilation = int(drawn.channel[index]), int(drawn.dilation[index])
    chosen = rng.integers(0, len(cases), max(1, THRESHOLD_OUTPUTS // max(1, cases.steps)))
    weights = np.where(np.isin(np.arange(TAPS), POSITIVE_TAPS[drawn.kernel[index]]), 2, -1)
    series = cases.values[chosen, channel].astype(np.int64)  # (n, T)
    reach = 0 if drawn.padded[index] else CENTRE * dilation
    steps, lengths = np.arange(cases.steps), cases.lengths[chosen, None]
    counted = counted_outputs(cases.valid[chosen, channel], steps < lengths, np.abs(weights), dilation)
    outputs = tap_sum(series, weights, dilation)[counted & (steps >= reach) & (steps < lengths - reach)]
    if not len(outputs):
        return np.zeros(len(levels), np.int32)
    return np.sort(np.floor(np.quantile(outputs, levels)).astype(np.int32))


def _offsets(counts: Int64) -> Int64:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
