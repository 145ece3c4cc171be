"""The description of a bundle: the part of config.json that its users read. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from msgspec import Meta

from anchormoe.cases import Alignment
from anchormoe.conversion import MAX_NAME, Text, from_stored, is_plain_text
from anchormoe.errors import DataError, ModelError
from anchormoe.windows import FillRule

Recipe = Literal["paper", "experts", "kernel", "joint"]

MAX_STEPS, MAX_CHANNELS, MAX_CLASSES, MAX_ROWS = 1_000_000, 100_000, 10_000, 4096
Steps = Annotated[int, Meta(ge=1, le=MAX_STEPS)]
_LATER_KEYS: dict[str, Any] = {"fill": []}
"""Bundles that were written before these keys existed stay readable."""


@dataclass(frozen=True, slots=True)
class BundleConfig:
    """What a bundle predicts, from which windows, and how it was made."""

    name: Text
    version: Text
    digest: str
    """sha256 of the manifest"""
    recipe: Recipe
    classes: tuple[Text, ...]
    channels: tuple[Text, ...]
    units: tuple[Text, ...]
    period_ns: Annotated[int, Meta(ge=1, le=1 << 62)] | None
    length: Steps
    patch_length: Steps
    patch_stride: Steps
    alignment: Alignment
    unequal_length: bool
    rows: Annotated[int, Meta(ge=1, le=MAX_ROWS)] = 32
    """windows that are computed at once, at most"""
    protocol: Text = "honest"
    fill: tuple[FillRule, ...] = ()
    """how missing values were filled in the training data, one rule per channel; empty where that is not known"""

    def to_dict(self) -> dict[str, Any]:
        """For config.json; the digest is not part of what it is the digest of."""
        stored = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "digest"}
        fill = [{"kind": rule.kind, "max_age": rule.max_age} for rule in self.fill]
        return stored | {name: list(stored[name]) for name in ("classes", "channels", "units")} | {"fill": fill}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], digest: str) -> "BundleConfig":
        """From all of config.json; keys of other parts of the bundle are ignored. Raises ModelError."""
        known = {one.name for one in fields(cls)}
        own = {key: value for key, value in (_LATER_KEYS | dict(stored)).items() if key in known}
        config = from_stored(cls, own | {"digest": digest}, "config.json:")
        _require_consistency(config)
        return config


def require_storable_names(classes: Sequence[str], channels: Sequence[str], others: Sequence[str]) -> None:
    """Before a training whose bundle nobody could load. Raises DataError; `others` are units, name and version."""
    for what, names, remedy in (
        ("class", classes, "; labels.names gives it another name"),
        ("channel", channels, "; rename it in the files"),
        ("name or unit", others, ""),
    ):
        for text in names:
            if not is_plain_text(text):
                raise DataError(f"{what} {text!a:.60}: control characters and line ends are not allowed{remedy}")
            if len(text) > MAX_NAME:
                raise DataError(f"{what} {text!a:.60}…: {len(text):,} characters, {MAX_NAME} are allowed{remedy}")
    for what, names, most in (("classes", classes, MAX_CLASSES), ("channels", channels, MAX_CHANNELS)):
        if len(names) > most:
            raise DataError(f"{len(names):,} {what}; a bundle has at most {most:,}")


def _require_consistency(config: BundleConfig) -> None:
    for text in (config.name, config.version, config.protocol, *config.classes, *config.channels, *config.units):
        if not is_plain_text(text):
            raise ModelError(f"config.json: {text!a:.60}: control characters are not allowed in names and units")
    if not 2 <= len(config.classes) <= MAX_CLASSES or len(set(config.classes)) != len(config.classes):
        raise ModelError(f"config.json: classes: expected 2 to {MAX_CLASSES} different names")
    if not 1 <= len(config.channels) <= MAX_CHANNELS or len(set(config.channels)) != len(config.channels):
        raise ModelError(f"config.json: channels: expected 1 to {MAX_CHANNELS} different names")
    if len(config.units) != len(config.channels):
        raise ModelError(f"config.json: units: {len(config.units)} for {len(config.channels)} channels")
    if len(config.fill) not in (0, len(config.channels)):
        raise ModelError(f"config.json: fill: {len(config.fill)} rules for {len(config.channels)} channels")
    if not config.patch_stride <= config.patch_length <= config.length:
        raise ModelError("config.json: patch_stride, patch_length: expected patch_stride <= patch_length <= length")
