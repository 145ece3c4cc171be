"""What the paper's net looks like when nobody says: one written rule from the data's shape to every size. Pure.

1. A patch is about an eighth of the series: the nearest power of two to T/8, at least 4, at most 256 steps; halved
   while channels × steps exceed 16,384 inputs (down to 4). Patches overlap by half, unless there were more than 512.
2. Width 64; 128 from 1,000 cases on. Four experts; eight from 1,000 cases and ten classes on. Two experts per patch.
3. Four frequency bands. Dropout 0.2 below 1,000 cases, 0.1 from there on.
4. Batches of about a sixteenth of the cases: a power of two from 8 to 64, 256 from 10,000 cases on.
5. Epochs for about 2,500 steps, from 20 to 150. Learning rate 0.002 for width 64, 0.001 for width 128.
"""

import math
from dataclasses import dataclass

from anchormoe.paper.patches import PatchGrid

MANY_CASES = 1_000
HUGE_CASES = 10_000
STEPS = 2_500
MAX_PATCH_INPUTS = 16_384
MAX_PATCHES = 512


@dataclass(frozen=True, slots=True)
class DataShape:
    """T, C, number of classes, number of training cases."""

    length: int
    channels: int
    classes: int
    cases: int


@dataclass(frozen=True, slots=True)
class PaperDefaults:
    """Every size that a user may leave open."""

    patch_length: int
    patch_stride: int
    width: int
    experts: int
    top_k: int
    bands: int
    dropout: float
    batch_size: int
    epochs: int
    learning_rate: float


def paper_defaults(shape: DataShape) -> PaperDefaults:
    many = shape.cases >= MANY_CASES
    length = patch_length(shape)
    batch = batch_size(shape.cases)
    return PaperDefaults(
        patch_length=length,
        patch_stride=patch_stride(length, shape.length),
        width=128 if many else 64,
        experts=8 if many and shape.classes >= 10 else 4,
        top_k=2,
        bands=4,
        dropout=0.1 if many else 0.2,
        batch_size=batch,
        epochs=epochs(shape.cases, batch),
        learning_rate=0.001 if many else 0.002,
    )


def patch_length(shape: DataShape) -> int:
    wanted = min(256, max(4, _nearest_power(shape.length / 8)))
    while wanted > 4 and wanted * shape.channels > MAX_PATCH_INPUTS:
        wanted //= 2
    return min(wanted, shape.length)


def patch_stride(patch: int, steps: int) -> int:
    half = max(1, patch // 2)
    return half if PatchGrid(patch, half).count(steps) <= MAX_PATCHES else patch


def batch_size(cases: int) -> int:
    return 256 if cases >= HUGE_CASES else min(64, max(8, _nearest_power(cases / 16)))


def epochs(cases: int, batch: int) -> int:
    return min(150, max(20, round(STEPS / math.ceil(cases / batch))))


def _nearest_power(value: float) -> int:
    return int(2 ** round(math.log2(max(1.0, value))))
