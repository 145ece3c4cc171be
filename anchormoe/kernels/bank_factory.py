"""Builds the banks that settings and data call for. Pure."""

from dataclasses import replace
from functools import partial

import numpy as np

from anchormoe.cases import Int64
from anchormoe.kernels.bank import KernelBank
from anchormoe.kernels.hydra import build_hydra
from anchormoe.kernels.means import MeanBank
from anchormoe.kernels.ppv_build import PPVSettings, build_ppv
from anchormoe.kernels.quantized import QuantizedCases, usable_channels
from anchormoe.kernels.settings import KernelSettings


def build_banks(
    cases: QuantizedCases, settings: KernelSettings, rng: np.random.Generator, channels: Int64 | None = None
) -> list[KernelBank]:
    """In the order K, D, segmented K, H, means; drawn from TRAIN. `channels` None: all usable ones."""
    channels = usable_channels(cases) if channels is None else channels
    banks: list[KernelBank] = [build_ppv(each, cases, rng, channels) for each in _ppv_settings(settings, cases)]
    groups = settings.sizes.hydra_groups // 2
    if groups:
        draw = partial(
            build_hydra, cases, groups, max_receptive_field=settings.max_receptive_field, rng=rng, channels=channels
        )
        banks.append(draw(difference=False))
        if cases.steps > 1:
            banks.append(draw(difference=True))
    banks.extend(_mean_banks(settings, cases, channels))
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


def _mean_banks(settings: KernelSettings, cases: QuantizedCases, channels: Int64) -> list[MeanBank]:
    """Levels, spreads and changes of the whole case; also of segments, where events have a fixed place in the case.

    `fast` has those of the whole case: they cost little, and a fault that is a level or a spread shows in nothing else.
    """
    longest = int(cases.lengths.max())
    banks = [MeanBank("M1", "level", 1, channels), MeanBank("S1", "spread", 1, channels)]
    if longest > 1:
        banks.append(MeanBank("A1", "change", 1, channels))
    if settings.alignment == "aligned" and settings.profile != "fast":
        banks += [MeanBank("M4", "level", 4, channels), MeanBank("S4", "spread", 4, channels)]
        if longest > 1:
            banks.append(MeanBank("A4", "change", 4, channels))
        if longest >= 10:
            banks.append(MeanBank("M10", "level", 10, channels))
    return banks
