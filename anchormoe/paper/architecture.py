"""The validated architecture of the paper's net. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

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

    channels: int
    classes: int
    patch_length: int
    patch_stride: int
    width: int = 64
    experts: int = 4
    top_k: int = 2
    bands: int = 4
    dropout: float = 0.1
    use_mvre: bool = True
    use_dpar: bool = True
    use_rgc: bool = True

    def __post_init__(self) -> None:
        for name in ("channels", "classes", "patch_length", "patch_stride", "width", "experts", "top_k", "bands"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ModelError(f"{name} must be a positive integer, not {value!r}")
        if self.width % WIDTH_MULTIPLE:
            raise ModelError(f"width must be a multiple of {WIDTH_MULTIPLE}, not {self.width}")
        if self.top_k > self.experts:
            raise ModelError(f"top_k {self.top_k} is more than the {self.experts} experts")
        if not 0 <= self.dropout < 1:
            raise ModelError(f"dropout must lie in [0, 1), not {self.dropout!r}")
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
        expected = {field.name for field in fields(cls)}
        if set(values) != expected:
            raise ModelError(f"architecture: missing or unknown keys {sorted(set(values) ^ expected)}")
        if any(type(values[name]) is not bool for name in ("use_mvre", "use_dpar", "use_rgc")):
            raise ModelError("use_mvre, use_dpar and use_rgc must be true or false")
        if type(values["dropout"]) not in (int, float):
            raise ModelError(f"dropout must be a number, not {values['dropout']!r}")
        return cls(**values)
