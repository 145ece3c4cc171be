"""What a user chooses about training, with the values of other people's settings checked by name. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from anchormoe.bundle.config import Recipe
from anchormoe.cases import Alignment
from anchormoe.errors import DataError
from anchormoe.evidence import Json
from anchormoe.model.abstention import require_wishes
from anchormoe.training.task import Objective, Profile

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
        kind = kind_of(known[field_name].type)
        if kind is None or type(value) not in ((int, float) if kind is float else (kind,)):
            raise DataError(
                f"{name}.{field_name}: {value!r} does not fit; the default is {_default(settings, field_name)}"
            )
        _require_range(value, kind, f"{name}.{field_name}")
    return replace(settings, **dict(changes))


def kind_of(annotation: Any) -> type | None:
    """What a value of a field must be, `| None` aside; None for fields that are no single value."""
    kinds = [one for one in get_args(annotation) or (annotation,) if one is not type(None)]
    if all(isinstance(one, str) for one in kinds):
        return str  # a Literal
    return kinds[0] if kinds[0] in (bool, int, float, str) else None


def _default(settings: Any, field_name: str) -> str:
    present = getattr(settings, field_name)
    return "chosen by rule" if present is None else repr(present)


def _require_range(value: Any, kind: type, name: str) -> None:
    """Whole numbers count something, the others weigh something: no source has a setting below that."""
    if kind is int and value < 1:
        raise DataError(f"{name}: must be at least 1, not {value}")
    if kind is float and not 0 <= value < math.inf:
        raise DataError(f"{name}: must be a number of at least 0, not {value}")
