"""The settings of `train` from file, `--set` and options, checked. Pure but for reading the file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from agent.errors import SettingsError
from anchormoe.conversion import from_settings
from anchormoe.errors import DataError, ModelError
from anchormoe.recipes.settings import GROUPS, RecipeSettings

_OTHER_SECTIONS = ("recordings", "data")


def train_settings(
    config: Path | None, changes: Sequence[str], options: Mapping[str, Any], *, alignment: str
) -> RecipeSettings:
    """Options override `--set`, which overrides the file's `train` section. Raises SettingsError."""
    values: dict[str, Any] = {"alignment": alignment} | _read_section(config)
    for change in changes:
        _apply(values, *_parse_change(change))
    return _convert(values | {name: value for name, value in options.items() if value is not None})


def _read_section(config: Path | None) -> dict[str, Any]:
    if config is None:
        return {}
    try:
        stored = yaml.safe_load(config.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeError) as error:
        raise SettingsError(f"{config}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(stored, dict):
        raise SettingsError(f"{config}: expected a mapping with the section `train`")
    unknown = sorted(set(map(str, stored)) - {"train", *_OTHER_SECTIONS})
    if unknown:
        raise SettingsError(f"{config}: {unknown[0]}: unknown section; known are train, {', '.join(_OTHER_SECTIONS)}")
    section = stored.get("train") or {}
    if not isinstance(section, dict):
        raise SettingsError(f"{config}: train: expected a mapping")
    return dict(section)


def _parse_change(change: str) -> tuple[str, Any]:
    key, equals, text = change.partition("=")
    if not equals or not key:
        raise SettingsError(f"--set {change}: expected key=value, for example experts.epochs=40")
    try:
        return key.strip(), yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"--set {key}: {text!r} is not a YAML value") from error


def _apply(values: dict[str, Any], key: str, value: Any) -> None:
    group, dot, name = key.partition(".")
    if not dot or group not in GROUPS:
        values[key] = value
    elif isinstance(values.get(group), dict | None):  # anything else is refused with the other settings
        values[group] = {**(values.get(group) or {}), name: value}


def _convert(values: Mapping[str, Any]) -> RecipeSettings:
    from anchormoe.recipes.fitters import require_settings

    try:
        settings = from_settings(RecipeSettings, values, "")
        require_settings(settings)
    except (DataError, ModelError) as error:
        raise SettingsError(str(error)) from error
    return settings
