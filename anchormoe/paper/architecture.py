"""The validated architecture of the paper's net. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated

from msgspec import Meta

from anchormoe.conversion import Count, from_stored, require_valid_fields
from anchormoe.errors import ModelError
from anchormoe.evidence import Json
from anchormoe.paper.patches import PatchGrid

EPSILON = 1e-6
"""ε of the paper's equations."""

WIDTH_MULTIPLE = 8
"""With rows of a multiple of eight floats, the result of a row does not depend on its place in the batch."""

COLUMNS = 16
"""Narrow matrix products (router, heads, classes) are padded to a multiple of so many columns."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes and switches of AnchorMoE; the `use_*` switches give the ablations w/o MVRE, DPAR, RGC."""

    channels: Count
    classes: Count
    patch_length: Count
    patch_stride: Count
    width: Count = 64
    experts: Count = 4
    top_k: Count = 2
    bands: Count = 4
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
