"""Builds the banks that settings and data call for. Pure."""

from dataclasses import replace

import numpy as np

from anchormoe.cases import Int64
from anchormoe.kernels.bank import KernelBank
from anchormoe.kernels.hydra import build_hydra
from anchormoe.kernels.means import MeanBank, channel_means, product_means
from anchormoe.kernels.ppv_build import PPVSettings, build_ppv
from anchormoe.kernels.quantized import QuantizedCases
from anchormoe.kernels.settings import KernelSettings

MAX_PRODUCT_CHANNELS = 30
MAX_SEGMENT_PRODUCT_CHANNELS = 12
MAX_MEAN_FEATURES = 5000


def build_banks(cases: QuantizedCases, settings: KernelSettings, rng: np.random.Generator) -> list[KernelBank]:
    """In the order K, D, segmented K, H, means; drawn from TRAIN."""
    banks: list[KernelBank] = [build_ppv(each, cases, rng) for each in _ppv_settings(settings, cases)]
    groups = settings.sizes.hydra_groups // 2
    if groups:
        limit = settings.max_receptive_field
        banks.append(build_hydra(cases, groups, difference=False, max_receptive_field=limit, rng=rng))
        if cases.steps > 1:
            banks.append(build_hydra(cases, groups, difference=True, max_receptive_field=limit, rng=rng))
    if settings.profile != "fast":
        banks.extend(_mean_banks(settings, cases))
    return banks


def _ppv_settings(settings: KernelSettings, cases: QuantizedCases) -> list[PPVSettings]:
    sizes, limit = settings.sizes, settings.max_receptive_field
    half, third = sizes.dilations // 2, sizes.dilations // 3
    unequal = int(cases.lengths.min()) != int(cases.lengths.max())
    chosen = [PPVSettings("K", sizes.ppv, sizes.dilations, pad_always=unequal, max_receptive_field=limit)]
    if sizes.differences and cases.steps > 1:
        differences = PPVSettings("D", sizes.differences, half, pad_always=unequal, max_receptive_field=limit)
        chosen.append(replace(differences, difference=True))
    if sizes.segmented and settings.alignment == "aligned" and int(cases.lengths.max()) >= 4:
        segmented = PPVSettings("K", sizes.segmented, third, pad_always=True, max_receptive_field=limit)
        chosen.append(replace(segmented, parts=(2, 4)))
    return chosen


def _mean_banks(settings: KernelSettings, cases: QuantizedCases) -> list[MeanBank]:
    channels = np.arange(cases.values.shape[1], dtype=np.int64)
    banks = [channel_means("M1", channels, 1)]
    if len(channels) <= MAX_PRODUCT_CHANNELS:
        banks.append(product_means("C1", channels, 1))
    if settings.alignment == "aligned":
        banks.extend(_segment_banks(channels, int(cases.lengths.max())))
    return [bank for bank in banks if bank.n_features <= MAX_MEAN_FEATURES]


def _segment_banks(channels: Int64, longest: int) -> list[MeanBank]:
    """Means over segments, for cases whose events have a fixed place."""
    banks = [channel_means("M4", channels, 4), channel_means("A4", channels, 4, "change")]
    if longest >= 10:
        banks.append(channel_means("M10", channels, 10))
    if len(channels) <= MAX_SEGMENT_PRODUCT_CHANNELS:
        banks.append(product_means("C4", channels, 4))
    return [bank for bank in banks if longest > 1 or bank.quantity != "change"]
