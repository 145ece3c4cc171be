"""The architecture of the paper's net as one checked value. Pure."""

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
"""Rows of a multiple of eight floats keep vector instructions without remainders: same bits at any place."""

COLUMNS = 16
"""Columns of narrow matrix products (router, heads, classes) are filled up to a multiple of this."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes and switches of AnchorMoE; `use_*` turned off gives the ablations w/o MVRE, DPAR, RGC."""

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
        """A short patch has fewer frequencies than bands were asked for."""
        return min(self.bands, self.bins)

    def to_dict(self) -> dict[str, Json]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Json]) -> "ModelConfig":
        """Strict inverse of `to_dict`. Raises ModelError."""
        return from_stored(cls, values, "paper")
