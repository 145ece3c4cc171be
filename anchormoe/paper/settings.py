"""Settings of the paper recipe; sizes that are not set follow from the shape of the data. Pure.

1. A patch is about an eighth of the series: the nearest power of two to T/8, at least 4, at most 256 steps; halved
   while channels × steps exceed 16,384 inputs (down to 4). Patches overlap by half, unless there were more than 512.
2. Width 64; 128 from 1,000 cases on. Four experts; eight from 1,000 cases and ten classes on. Two experts per patch.
3. Four frequency bands. Dropout 0.2 below 1,000 cases, 0.1 from there on.
4. Batches of about a sixteenth of the cases: a power of two from 8 to 64, 256 from 10,000 cases on.
5. Epochs for about 2,500 steps, from 20 to 150. Learning rate 0.002 for width 64, 0.001 for width 128.
"""

import math
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from msgspec import Meta

from anchormoe.conversion import Amount, Count, require_valid_fields
from anchormoe.errors import ModelError
from anchormoe.paper.architecture import ModelConfig
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
class PaperSizes:
    """The sizes that a user may set; see the rule above."""

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


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """None means: by the rule above."""

    patch_length: Count | None = None
    patch_stride: Count | None = None
    width: Count | None = None
    experts: Count | None = None
    top_k: Count | None = None
    bands: Count | None = None
    dropout: Amount | None = None
    batch_size: Count | None = None
    epochs: Count | None = None
    learning_rate: Amount | None = None
    weight_decay: Amount = 0.01
    lambda_orth: Amount = 0.05
    lambda_ra: Amount = 0.05
    warmup_share: Amount = 0.3
    """Share of the epochs over which λ_orth and λ_ra grow to their full values"""
    patience_share: Amount = 0.3
    """Share of the epochs without a better validation loss after which a fold stops"""
    folds: Annotated[int, Meta(ge=2)] = 3
    class_weight: Literal["none", "balanced"] = "none"
    use_mvre: bool = True
    use_dpar: bool = True
    use_rgc: bool = True

    def __post_init__(self) -> None:
        require_valid_fields(self, error=ModelError)

    def sizes_for(self, shape: DataShape) -> PaperSizes:
        """The user's values where set, the rule's elsewhere; stride and top_k follow what they depend on."""
        rule = default_sizes(shape)
        values: dict[str, Any] = {field.name: self._or_default(rule, field.name) for field in fields(rule)}
        values["patch_length"] = min(values["patch_length"], shape.length)
        if self.patch_length is not None and self.patch_stride is None:
            values["patch_stride"] = max(1, values["patch_length"] // 2)
        values["patch_stride"] = min(values["patch_stride"], values["patch_length"])
        if self.top_k is None:
            values["top_k"] = min(values["top_k"], values["experts"])
        return PaperSizes(**values)

    def architecture(self, shape: DataShape) -> ModelConfig:
        sizes = self.sizes_for(shape)
        return ModelConfig(
            channels=shape.channels,
            classes=shape.classes,
            patch_length=sizes.patch_length,
            patch_stride=sizes.patch_stride,
            width=sizes.width,
            experts=sizes.experts,
            top_k=sizes.top_k,
            bands=sizes.bands,
            dropout=sizes.dropout,
            use_mvre=self.use_mvre,
            use_dpar=self.use_dpar,
            use_rgc=self.use_rgc,
        )

    def _or_default(self, rule: PaperSizes, name: str) -> Any:
        value = getattr(self, name)
        return getattr(rule, name) if value is None else value


def default_sizes(shape: DataShape) -> PaperSizes:
    many = shape.cases >= MANY_CASES
    length = _patch_length(shape)
    batch = _batch_size(shape.cases)
    return PaperSizes(
        patch_length=length,
        patch_stride=_patch_stride(length, shape.length),
        width=128 if many else 64,
        experts=8 if many and shape.classes >= 10 else 4,
        top_k=2,
        bands=4,
        dropout=0.1 if many else 0.2,
        batch_size=batch,
        epochs=_epochs(shape.cases, batch),
        learning_rate=0.001 if many else 0.002,
    )


def _patch_length(shape: DataShape) -> int:
    length = min(256, max(4, _nearest_power_of_two(shape.length / 8)))
    while length > 4 and length * shape.channels > MAX_PATCH_INPUTS:
        length //= 2
    return min(length, shape.length)


def _patch_stride(patch: int, steps: int) -> int:
    half = max(1, patch // 2)
    return half if PatchGrid(patch, half).count(steps) <= MAX_PATCHES else patch


def _batch_size(cases: int) -> int:
    return 256 if cases >= HUGE_CASES else min(64, max(8, _nearest_power_of_two(cases / 16)))


def _epochs(cases: int, batch: int) -> int:
    return min(150, max(20, round(STEPS / math.ceil(cases / batch))))


def _nearest_power_of_two(value: float) -> int:
    return int(2 ** round(math.log2(max(1.0, value))))
