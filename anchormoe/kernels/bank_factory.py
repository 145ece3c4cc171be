"""Which extractors settings and data call for. Pure."""

from dataclasses import replace

import numpy as np

from anchormoe.cases import Int64
from anchormoe.kernels.bank import KernelBank
from anchormoe.kernels.hydra import build_hydra
from anchormoe.kernels.means import MeanBank, channel_means, product_means
from anchormoe.kernels.ppv_build import BankPlan, build_ppv
from anchormoe.kernels.quantized import QuantizedCases
from anchormoe.kernels.settings import KernelSettings

MOST_PRODUCT_CHANNELS = 30
MOST_SEGMENT_PRODUCT_CHANNELS = 12
MOST_MEAN_FEATURES = 5000


def build_banks(cases: QuantizedCases, settings: KernelSettings, rng: np.random.Generator) -> list[KernelBank]:
    """In the order K, D, segmented K, H, means; drawn from TRAIN."""
    unequal = int(cases.lengths.min()) != int(cases.lengths.max())
    extractors: list[KernelBank] = [build_ppv(plan, cases, rng) for plan in _bank_plans(settings, cases, unequal)]
    groups = settings.sizes.hydra_groups // 2
    if groups:
        limit = settings.max_receptive_field
        extractors.append(build_hydra(cases, groups, difference=False, max_receptive_field=limit, rng=rng))
        if cases.steps > 1:
            extractors.append(build_hydra(cases, groups, difference=True, max_receptive_field=limit, rng=rng))
    if settings.profile != "fast":
        extractors.extend(_mean_banks(settings, cases))
    return extractors


def _bank_plans(settings: KernelSettings, cases: QuantizedCases, unequal: bool) -> list[BankPlan]:
    sizes, limit = settings.sizes, settings.max_receptive_field
    half, third = sizes.dilations // 2, sizes.dilations // 3
    plans = [BankPlan("K", sizes.shares, sizes.dilations, pad_always=unequal, max_receptive_field=limit)]
    if sizes.differences and cases.steps > 1:
        differences = BankPlan("D", sizes.differences, half, pad_always=unequal, max_receptive_field=limit)
        plans.append(replace(differences, difference=True))
    if sizes.segmented and settings.alignment == "aligned" and int(cases.lengths.max()) >= 4:
        segmented = BankPlan("K", sizes.segmented, third, pad_always=True, max_receptive_field=limit)
        plans.append(replace(segmented, parts=(2, 4)))
    return plans


def _mean_banks(settings: KernelSettings, cases: QuantizedCases) -> list[MeanBank]:
    channels = np.arange(cases.values.shape[1], dtype=np.int64)
    banks = [channel_means("M1", channels, 1)]
    if len(channels) <= MOST_PRODUCT_CHANNELS:
        banks.append(product_means("C1", channels, 1))
    if settings.alignment == "aligned":
        banks.extend(_placed_banks(channels, int(cases.lengths.max())))
    return [bank for bank in banks if bank.n_features <= MOST_MEAN_FEATURES]


def _placed_banks(channels: Int64, longest: int) -> list[MeanBank]:
    """Means at a fixed place in the case."""
    banks = [channel_means("M4", channels, 4), channel_means("A4", channels, 4, "change")]
    if longest >= 10:
        banks.append(channel_means("M10", channels, 10))
    if len(channels) <= MOST_SEGMENT_PRODUCT_CHANNELS:
        banks.append(product_means("C4", channels, 4))
    return [bank for bank in banks if longest > 1 or bank.quantity != "change"]
