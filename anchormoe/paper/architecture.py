"""The validated architecture of the paper's net. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated

from msgspec import Meta

from anchormoe.conversion import from_stored, require_valid_fields
from anchormoe.errors import ModelError
from anchormoe.evidence import Json
from anchormoe.paper.patches import PatchGrid

EPSILON = 1e-6
"""ε of the paper's equations."""

WIDTH_MULTIPLE = 8
"""With rows of a multiple of eight floats, the result of a row does not depend on its place in the batch."""

COLUMNS = 16
"""Narrow matrix products (router, heads, classes) are padded to a multiple of so many columns."""

# Upper limits: without them, a damaged file could ask for more memory than there is, or overflow torch's sizes.
Channels = Annotated[int, Meta(ge=1, le=100_000)]
Classes = Annotated[int, Meta(ge=1, le=10_000)]
PatchSteps = Annotated[int, Meta(ge=1, le=4_096)]
"""The spectral view has a table of patch_length² entries."""
Width = Annotated[int, Meta(ge=1, le=4_096)]
Experts = Annotated[int, Meta(ge=1, le=1_024)]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes and switches of AnchorMoE; the `use_*` switches give the ablations w/o MVRE, DPAR, RGC."""

    channels: Channels
    classes: Classes
    patch_length: PatchSteps
    patch_stride: PatchSteps
    width: Width = 64
    experts: Experts = 4
    top_k: Experts = 2
    bands: PatchSteps = 4
    dropout: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    use_mvre: bool = True
    use_dpar: bool = True
    use_rgc: bool = True

    def __post_init__(self) -> None:
        require_valid_fields(self, error=ModelError)
        if self.width % WIDTH_MULTIPLE:
            raise ModelError(f"width must be a multiple of {WIDTH_MULTIPLE}, not {self.width}")
        if self.top_k > self.experts:
            raise ModelError(f"top_k {self.top_k} is more than the {self.experts} experts")
        PatchGrid(self.patch_length, self.patch_stride)

    @property
    def grid(self) -> PatchGrid:
        return PatchGrid(self.patch_length, self.patch_stride)

    @property
    def bins(self) -> int:
        """Frequencies of a patch's real Fourier transform."""
        return self.patch_length // 2 + 1

    @property
    def band_count(self) -> int:
        """At most the number of frequencies, of which a short patch has few."""
        return min(self.bands, self.bins)

    def to_dict(self) -> dict[str, Json]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Json]) -> "ModelConfig":
        """Strict inverse of `to_dict`. Raises ModelError."""
        return from_stored(cls, values, "paper")
