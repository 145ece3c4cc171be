"""What a user chooses about training, with the values of other people's settings checked by name. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from anchormoe.abstention import require_wishes
from anchormoe.blend import Objective
from anchormoe.bundle_config import Alignment, Recipe
from anchormoe.errors import DataError
from anchormoe.evidence import Json

Profile = Literal["fast", "balanced", "accurate"]
ClassWeight = Literal["auto", "none", "balanced"]
Protocol = Literal["honest", "optimistic"]
MOST_COPIES = 8
GROUPS = ("kernel", "experts", "paper", "abstention")
"""Fields that are mappings themselves."""


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
    channel_dropout: int = 0
    """copies of each case that lack one channel; with them a model may go on when a channel fails"""
    kernel: Mapping[str, Any] = field(default_factory=dict)
    experts: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[str, Any] = field(default_factory=dict)
    abstention: Mapping[str, Any] = field(default_factory=dict)
    """thresholds instead of the fitted ones; None switches a rule off"""

    def __post_init__(self) -> None:
        kinds = {"recipe": Recipe, "profile": Profile, "objective": Objective, "alignment": Alignment,
                 "class_weight": ClassWeight, "protocol": Protocol}  # fmt: skip
        for name, kind in kinds.items():
            if getattr(self, name) not in get_args(kind):
                raise DataError(f"{name} must be one of {', '.join(get_args(kind))}, not {getattr(self, name)!r}")
        if type(self.channel_dropout) is not int or not 0 <= self.channel_dropout <= MOST_COPIES:
            raise DataError(f"channel_dropout: must be a number of copies from 0 to {MOST_COPIES}")
        require_wishes(self.abstention)
        if self.protocol == "optimistic" and self.recipe != "paper":
            raise DataError("protocol optimistic picks the paper's epoch on TEST: it needs recipe paper")

    def to_dict(self) -> dict[str, Json]:
        names = ("recipe", "profile", "objective", "alignment", "class_weight", "protocol", "patch_length")
        plain = {name: getattr(self, name) for name in (*names, "patch_stride", "channel_dropout")}
        return plain | {name: dict(getattr(self, name)) for name in GROUPS}


def overridden(settings: Any, changes: Mapping[str, Any], name: str) -> Any:
    """A settings value with single fields changed. Raises DataError on unknown fields and wrong types."""
    known = type(settings).__dataclass_fields__
    for field_name, value in changes.items():
        if field_name not in known:
            raise DataError(f"{name}.{field_name}: unknown; known are {', '.join(sorted(known))}")
        _require_kind(value, getattr(settings, field_name), f"{name}.{field_name}")
    return replace(settings, **dict(changes))


def _require_kind(value: Any, present: Any, name: str) -> None:
    """A new value must be of the kind of the present one; where there is none, a number."""
    kinds: tuple[type, ...] = (int, float) if present is None or type(present) is float else (type(present),)
    if type(value) not in kinds or type(present) not in (type(None), bool, int, float, str):
        raise DataError(f"{name}: {value!r} does not fit; the default is {present!r}")
