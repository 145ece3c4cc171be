"""What a user chooses about training. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from anchormoe.bundle.config import Recipe
from anchormoe.cases import Alignment
from anchormoe.conversion import Count, require_valid_fields
from anchormoe.errors import DataError
from anchormoe.evidence import Json
from anchormoe.model.abstention import require_thresholds
from anchormoe.training.task import Objective, Profile

ClassWeight = Literal["auto", "none", "balanced"]
SelectionProtocol = Literal["honest", "optimistic"]
MAX_COPIES = 8
GROUPS = ("kernel", "experts", "paper", "abstention")
"""Fields that are mappings themselves."""


@dataclass(frozen=True, slots=True)
class RecipeSettings:
    """`kernel`, `experts` and `paper` override single fields of those sources' settings. Raises DataError."""

    recipe: Recipe = "joint"
    profile: Profile = "balanced"
    objective: Objective = "accuracy"
    alignment: Alignment = "aligned"
    class_weight: ClassWeight = "auto"
    protocol: SelectionProtocol = "honest"
    device: str = "cpu"
    patch_length: Count | None = None
    patch_stride: Count | None = None
    channel_dropout: Annotated[int, Meta(ge=0, le=MAX_COPIES)] = 0
    """copies of each case that lack one channel; with them the model can still answer when a channel fails"""
    kernel: Mapping[str, Any] = field(default_factory=dict)
    experts: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[str, Any] = field(default_factory=dict)
    abstention: Mapping[str, Any] = field(default_factory=dict)
    """thresholds instead of the fitted ones; None switches a rule off"""

    def __post_init__(self) -> None:
        require_valid_fields(self)
        require_thresholds(self.abstention)
        if self.protocol == "optimistic" and self.recipe != "paper":
            raise DataError("protocol: optimistic chooses the paper's epoch on TEST, so it needs recipe paper")

    def to_dict(self) -> dict[str, Json]:
        """For the bundle; the device is not part of what was trained."""
        names = ("recipe", "profile", "objective", "alignment", "class_weight", "protocol", "patch_length")
        plain = {name: getattr(self, name) for name in (*names, "patch_stride", "channel_dropout")}
        return plain | {name: dict(getattr(self, name)) for name in GROUPS}
