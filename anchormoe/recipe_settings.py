"""What a user chooses about training, with the values of other people's settings checked by name. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from anchormoe.blend import Objective
from anchormoe.bundle_config import Alignment, Recipe
from anchormoe.errors import DataError
from anchormoe.evidence import Json

Profile = Literal["fast", "balanced", "accurate"]
ClassWeight = Literal["auto", "none", "balanced"]
Protocol = Literal["honest", "optimistic"]


@dataclass(frozen=True, slots=True)
class RecipeSettings:
    """What a user chooses; `kernel`, `experts` and `paper` override single fields of those sources' settings."""

    recipe: Recipe = "joint"
    profile: Profile = "balanced"
    objective: Objective = "accuracy"
    alignment: Alignment = "aligned"
    class_weight: ClassWeight = "auto"
    protocol: Protocol = "honest"
    device: str = "cpu"
    patch_length: int | None = None
    patch_stride: int | None = None
    kernel: Mapping[str, Any] = field(default_factory=dict)
    experts: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kinds = {"recipe": Recipe, "profile": Profile, "objective": Objective, "alignment": Alignment,
                 "class_weight": ClassWeight, "protocol": Protocol}  # fmt: skip
        for name, kind in kinds.items():
            if getattr(self, name) not in get_args(kind):
                raise DataError(f"{name} must be one of {', '.join(get_args(kind))}, not {getattr(self, name)!r}")
        if self.protocol == "optimistic" and self.recipe != "paper":
            raise DataError("protocol optimistic picks the paper's epoch on TEST: it needs recipe paper")

    def to_dict(self) -> dict[str, Json]:
        names = ("recipe", "profile", "objective", "alignment", "class_weight", "protocol", "patch_length")
        plain = {name: getattr(self, name) for name in (*names, "patch_stride")}
        return plain | {name: dict(getattr(self, name)) for name in ("kernel", "experts", "paper")}


def overridden(settings: Any, changes: Mapping[str, Any], name: str) -> Any:
    """A settings value with single fields changed. Raises DataError on unknown fields."""
    known = set(type(settings).__dataclass_fields__)
    unknown = sorted(set(changes) - known)
    if unknown:
        raise DataError(f"{name}.{unknown[0]}: unknown; known are {', '.join(sorted(known))}")
    return replace(settings, **dict(changes))
