"""What a bundle says about itself: the part of config.json that its users read. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from anchormoe.cases import Alignment
from anchormoe.errors import ModelError
from anchormoe.windows import FillKind, FillRule

Recipe = Literal["paper", "experts", "kernel", "joint"]

MAX_STEPS, MAX_CHANNELS, MAX_CLASSES, MAX_ROWS = 1_000_000, 100_000, 10_000, 4096
_MAX_TEXT = 500


@dataclass(frozen=True, slots=True)
class BundleConfig:
    """`digest` is the sha256 of the manifest; at most `rows` windows are computed at once.

    `fill` says how holes were filled in the training data, channel by channel; empty where nobody knows.
    """

    name: str
    version: str
    digest: str
    recipe: Recipe
    classes: tuple[str, ...]
    channels: tuple[str, ...]
    units: tuple[str, ...]
    period_ns: int | None
    length: int
    patch_length: int
    patch_stride: int
    alignment: Alignment
    unequal_length: bool
    rows: int = 32
    protocol: str = "honest"
    fill: tuple[FillRule, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For config.json; the digest is not part of what it is the digest of."""
        stored = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "digest"}
        fill = [{"kind": rule.kind, "max_age": rule.max_age} for rule in self.fill]
        return stored | {name: list(stored[name]) for name in ("classes", "channels", "units")} | {"fill": fill}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], digest: str) -> "BundleConfig":
        """Strict: every field there (but the younger `fill`), of its type and within its limits. Raises ModelError."""
        missing = [one.name for one in fields(cls) if one.name not in ("digest", "fill") and one.name not in stored]
        if missing:
            raise ModelError(f"config.json: {missing[0]} is missing")
        texts = {name: _texts(stored[name], name) for name in ("classes", "channels", "units")}
        config = cls(
            name=_text(stored["name"], "name"),
            version=_text(stored["version"], "version"),
            digest=digest,
            recipe=_choice(stored["recipe"], "recipe", Recipe),
            period_ns=None if stored["period_ns"] is None else _count(stored["period_ns"], "period_ns", 1 << 62),
            length=_count(stored["length"], "length", MAX_STEPS),
            patch_length=_count(stored["patch_length"], "patch_length", MAX_STEPS),
            patch_stride=_count(stored["patch_stride"], "patch_stride", MAX_STEPS),
            alignment=_choice(stored["alignment"], "alignment", Alignment),
            unequal_length=_flag(stored["unequal_length"], "unequal_length"),
            rows=_count(stored["rows"], "rows", MAX_ROWS),
            protocol=_text(stored["protocol"], "protocol"),
            fill=_fill_rules(stored.get("fill", [])),
            **texts,
        )
        _require_agreement(config)
        return config


def _require_agreement(config: BundleConfig) -> None:
    if not 2 <= len(config.classes) <= MAX_CLASSES or len(set(config.classes)) != len(config.classes):
        raise ModelError("config.json: classes must be at least two different names")
    if not 1 <= len(config.channels) <= MAX_CHANNELS or len(set(config.channels)) != len(config.channels):
        raise ModelError("config.json: channels must be different names, at least one")
    if len(config.units) != len(config.channels):
        raise ModelError(f"config.json: {len(config.units)} units for {len(config.channels)} channels")
    if len(config.fill) not in (0, len(config.channels)):
        raise ModelError(f"config.json: fill has {len(config.fill)} rules for {len(config.channels)} channels")
    if not config.patch_stride <= config.patch_length <= config.length:
        raise ModelError("config.json: need patch_stride <= patch_length <= length")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise ModelError(f"config.json: {name} must be a text of at most {_MAX_TEXT} characters")
    return value


def _texts(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ModelError(f"config.json: {name} must be a list of texts")
    return tuple(_text(one, name) for one in value)


def _fill_rules(value: Any) -> tuple[FillRule, ...]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ModelError("config.json: fill must be a list of rules")
    return tuple(
        FillRule(_choice(one.get("kind"), "fill", FillKind), _count(one.get("max_age"), "fill", MAX_STEPS, least=0))
        for one in value
    )


def _count(value: Any, name: str, most: int, *, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ModelError(f"config.json: {name} must be a whole number from {least} to {most}")
    return value


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise ModelError(f"config.json: {name} must be true or false")
    return value


def _choice(value: Any, name: str, kind: Any) -> Any:
    if value not in get_args(kind):
        raise ModelError(f"config.json: {name} must be one of {', '.join(get_args(kind))}")
    return value
