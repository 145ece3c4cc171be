"""Padded and scaled series as the networks take them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from anchormoe.benchmark.baselines import pad_cases
from anchormoe.data.dataset import Dataset

Figures = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Series:
    """Scaled, padded series (N, T, C), valid steps (N, T) and classes (N,)."""

    x: Tensor
    valid: Tensor
    y: Tensor


def scale_series(train: Dataset, test: Dataset) -> tuple[Series, Series]:
    """Both padded to TRAIN's longest series and scaled by TRAIN's valid steps; padding is 0, the scaled mean."""
    length = int(train.cases.lengths.max())
    known = pad_cases(train.cases, length).transpose(0, 2, 1)[_valid_steps(train, length)]  # (valid steps, C)
    mean, deviation = known.mean(axis=0), np.maximum(known.std(axis=0), 1e-8)
    return _series(train, length, mean, deviation), _series(test, length, mean, deviation)


def _series(data: Dataset, length: int, mean: Figures, deviation: Figures) -> Series:
    valid = _valid_steps(data, length)
    scaled = (pad_cases(data.cases, length).transpose(0, 2, 1) - mean) / deviation * valid[..., None]
    return Series(
        torch.from_numpy(np.ascontiguousarray(scaled, np.float32)),
        torch.from_numpy(valid.astype(np.float32)),
        torch.from_numpy(data.y.astype(np.int64)),
    )


def _valid_steps(data: Dataset, length: int) -> npt.NDArray[np.bool_]:
    """(N, length): True up to each series' end; holes inside a series are interpolated and count."""
    return np.asarray(np.arange(length) < data.cases.lengths[:, None])
