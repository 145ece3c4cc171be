"""Writes and loads bundles: directories of data, replaced atomically and checked completely before use."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from anchormoe.atomic_file import replace_directory
from anchormoe.bundle import golden as golden_windows
from anchormoe.bundle.config import BundleConfig
from anchormoe.bundle.files import (
    CALIBRATION,
    CARD,
    CHANNEL_PROFILE,
    CONFIG,
    EXPERTS,
    EXTRAS,
    GOLDEN,
    MANIFEST,
    MODEL,
    NORMALIZER,
    PLAUSIBILITY,
    REQUIRED,
    SEGMENTS,
    Tensors,
    dump_json,
    dump_tensors,
    parse_json,
    parse_tensors,
    read_file,
    require_specs,
    sha256,
    tensor_specs,
)
from anchormoe.bundle.golden import Golden
from anchormoe.bundle.registry import SOURCE_TYPES, SourceTypes
from anchormoe.conversion import from_stored
from anchormoe.errors import ModelError
from anchormoe.evidence import Patching
from anchormoe.model.abstention import Abstention
from anchormoe.model.additive import AdditiveModel, Part
from anchormoe.model.calibration import Calibration
from anchormoe.model.channel_profile import ChannelProfile
from anchormoe.model.normalizer import Normalizer
from anchormoe.model.plausibility import Plausibility
from anchormoe.profiles.profile import ExpertProfiles

FORMAT = 2
_KNOWN = {*REQUIRED, CHANNEL_PROFILE, EXPERTS, SEGMENTS, *EXTRAS}
_MAX_PARTS = 8
_PACKAGES = ("anchormoe-agent", "numpy", "torch")


@dataclass(frozen=True, slots=True)
class Artefact:
    """The content of a bundle; `data`, `metrics` and `settings` are JSON, `extras` further files."""

    config: BundleConfig
    model: AdditiveModel
    golden: Golden
    card: str
    data: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    extras: Mapping[str, bytes] = field(default_factory=dict)
    profile: ChannelProfile | None = None
    experts: ExpertProfiles | None = None


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was read and checked, except for its golden windows."""

    config: BundleConfig
    model: AdditiveModel
    golden: Golden
    manifest: Mapping[str, Any]
    settings: Mapping[str, Any]
    profile: ChannelProfile | None = None
    experts: ExpertProfiles | None = None


def write_bundle(directory: Path, artefact: Artefact, *, force: bool = False) -> str:
    """Returns the digest. An existing directory needs `force`, and must be a bundle. Raises ModelError."""
    refuse_existing(directory, force=force)
    files = _files(artefact)
    files[MANIFEST] = dump_json(_manifest(artefact, files))
    replace_directory(directory, files)
    return sha256(files[MANIFEST])


def refuse_existing(directory: Path, *, force: bool) -> None:
    """Raises ModelError where `write_bundle` would; a caller can find out before hours of training."""
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return
    if not directory.is_dir() or not (directory / MANIFEST).is_file():
        raise ModelError(f"{directory}: exists and is not a bundle; it is not replaced")
    if not force:
        raise ModelError(f"{directory}: exists; --force replaces it")


def load_bundle(directory: Path, *, sources: SourceTypes = SOURCE_TYPES) -> Bundle:
    """Checks the manifest, hashes, types, shapes and finiteness, in this order. Raises ModelError."""
    if not directory.is_dir():
        raise ModelError(f"{directory}: there is no such directory")
    content = read_file(directory, MANIFEST)
    manifest = parse_json(content, MANIFEST)
    files = _read_files(directory, manifest)
    stored = parse_json(files[CONFIG], CONFIG)
    if stored.get("format") != FORMAT:
        raise ModelError(
            f"{CONFIG}: format {stored.get('format')!r:.60}, this version reads format {FORMAT}; "
            "train the model again with this version, or read it with the version that wrote it"
        )
    config = BundleConfig.from_dict(stored, sha256(content))
    golden = golden_windows.from_tensors(
        parse_tensors(files[GOLDEN], GOLDEN),
        channels=len(config.channels), steps=config.length, classes=len(config.classes),
    )  # fmt: skip
    settings = from_stored(dict[str, Any], stored.get("settings", {}), f"{CONFIG}: settings")
    model, profile, experts = _model(config, stored, files, sources), _profile(config, files), _experts(config, files)
    return Bundle(config, model, golden, manifest, settings, profile, experts)


def _files(artefact: Artefact) -> dict[str, bytes]:
    model, tensors = artefact.model, _tensors(artefact.model)
    unknown = set(artefact.extras) - set(EXTRAS)
    if unknown:
        raise ModelError(f"{min(unknown)}: not a file of a bundle")
    config = artefact.config.to_dict() | {
        "format": FORMAT,
        "parts": [{"name": part.name, "config": part.source.config()} for part in model.parts],
        "tensors": tensor_specs(tensors),
        "settings": dict(artefact.settings),
    }
    calibration = {
        "weights": {part.name: part.weight for part in model.parts},
        "calibration": model.calibration.to_dict(),
        "abstention": model.abstention.to_dict(),
    }
    return {
        MODEL: dump_tensors(tensors),
        CONFIG: dump_json(config),
        NORMALIZER: dump_json(model.normalizer.to_dict()),
        CALIBRATION: dump_json(calibration),
        GOLDEN: dump_tensors(golden_windows.to_tensors(artefact.golden)),
        CARD: artefact.card.encode(),
        **({} if model.plausibility is None else {PLAUSIBILITY: dump_json(model.plausibility.to_dict())}),
        **({} if artefact.profile is None else {CHANNEL_PROFILE: dump_tensors(artefact.profile.tensors())}),
        **_expert_files(artefact.experts),
        **artefact.extras,
    }


def _tensors(model: AdditiveModel) -> Tensors:
    return {f"{part.name}/{name}": array for part in model.parts for name, array in part.source.tensors().items()}


def _manifest(artefact: Artefact, files: Mapping[str, bytes]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "files": {name: {"sha256": sha256(content), "bytes": len(content)} for name, content in files.items()},
        "data": dict(artefact.data),
        "metrics": dict(artefact.metrics),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _read_files(directory: Path, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    listed = manifest.get("files")
    if not isinstance(listed, dict) or not set(REQUIRED) <= set(listed) <= _KNOWN:
        raise ModelError(f"{MANIFEST}: files: expected {', '.join(REQUIRED)}, and no unknown file")
    files = {}
    for name, facts in listed.items():
        files[name] = read_file(directory, name)
        if not isinstance(facts, dict) or facts.get("sha256") != sha256(files[name]):
            raise ModelError(f"{name}: its sha256 differs from the one in {MANIFEST}")
    return files


def _profile(config: BundleConfig, files: Mapping[str, bytes]) -> ChannelProfile | None:
    if CHANNEL_PROFILE not in files:
        return None
    tensors = parse_tensors(files[CHANNEL_PROFILE], CHANNEL_PROFILE)
    try:
        return ChannelProfile.from_tensors(tensors, classes=len(config.classes), channels=len(config.channels))
    except ModelError as error:
        raise ModelError(f"{CHANNEL_PROFILE}: {error}") from None


def _expert_files(experts: ExpertProfiles | None) -> dict[str, bytes]:
    return {} if experts is None else {EXPERTS: dump_json(experts.to_dict()), SEGMENTS: dump_tensors(experts.tensors())}


def _experts(config: BundleConfig, files: Mapping[str, bytes]) -> ExpertProfiles | None:
    if (EXPERTS in files) != (SEGMENTS in files):
        raise ModelError(f"{MANIFEST}: files: expected both {EXPERTS} and {SEGMENTS}, or neither")
    if EXPERTS not in files:
        return None
    stored, tensors = parse_json(files[EXPERTS], EXPERTS), parse_tensors(files[SEGMENTS], SEGMENTS)
    try:
        return ExpertProfiles.from_stored(
            stored, tensors, channels=len(config.channels), classes=len(config.classes), steps=config.length
        )
    except ModelError as error:
        raise ModelError(f"{EXPERTS}, {SEGMENTS}: {error}") from None


@dataclass(frozen=True, slots=True)
class _StoredPart:
    """An entry of `parts` in config.json."""

    name: str
    config: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _StoredCalibration:
    """calibration.json; `calibration` and `abstention` are read by their own classes."""

    weights: dict[str, float]
    calibration: dict[str, Any]
    abstention: dict[str, Any]


def _model(
    config: BundleConfig, stored: Mapping[str, Any], files: Mapping[str, bytes], sources: SourceTypes
) -> AdditiveModel:
    normalizer = Normalizer.from_dict(parse_json(files[NORMALIZER], NORMALIZER))
    if len(normalizer.mean) != len(config.channels):
        raise ModelError(f"{NORMALIZER}: {len(normalizer.mean)} channels, {CONFIG} lists {len(config.channels)}")
    tensors = parse_tensors(files[MODEL], MODEL)
    require_specs(tensors, stored.get("tensors"))
    calibration = from_stored(_StoredCalibration, parse_json(files[CALIBRATION], CALIBRATION), f"{CALIBRATION}:")
    return AdditiveModel(
        normalizer=normalizer,
        parts=_parts(stored.get("parts"), calibration.weights, tensors, sources),
        calibration=Calibration.from_dict(calibration.calibration, len(config.classes)),
        abstention=Abstention.from_dict(calibration.abstention, len(config.channels)),
        patching=Patching(config.patch_length, config.patch_stride),
        plausibility=_plausibility(config, files),
    )


def _plausibility(config: BundleConfig, files: Mapping[str, bytes]) -> Plausibility | None:
    """None in bundles from before it was stored."""
    if PLAUSIBILITY not in files:
        return None
    stored = parse_json(files[PLAUSIBILITY], PLAUSIBILITY)
    return Plausibility.from_dict(stored, channels=len(config.channels), classes=len(config.classes))


def _parts(stored: Any, weights: Mapping[str, float], tensors: Tensors, sources: SourceTypes) -> tuple[Part, ...]:
    parts = from_stored(tuple[_StoredPart, ...], stored, f"{CONFIG}: parts")
    names = [part.name for part in parts]
    if not 1 <= len(parts) <= _MAX_PARTS or len(set(names)) != len(names) or not set(names) <= set(sources):
        raise ModelError(f"{CONFIG}: parts: expected 1 to {_MAX_PARTS} different ones of {', '.join(sources)}")
    if set(weights) != set(names):
        raise ModelError(f"{CALIBRATION}: weights: expected exactly the parts of {CONFIG}: {', '.join(names)}")
    owners = {name.partition("/")[0] for name in tensors}
    if not owners <= set(names):
        raise ModelError(f"{MODEL}: {min(owners - set(names))}/…: tensors of a part that {CONFIG} does not list")
    return tuple(_part(part, weights[part.name], tensors, sources) for part in parts)


def _part(stored: _StoredPart, weight: float, tensors: Tensors, sources: SourceTypes) -> Part:
    own = {key.partition("/")[2]: array for key, array in tensors.items() if key.partition("/")[0] == stored.name}
    try:
        return Part(stored.name, sources[stored.name]().from_parts(stored.config, own), weight)
    except ModelError:
        raise
    # Sizes and values that each look fine may still not go together; torch and numpy then raise what they like.
    except Exception as error:
        raise ModelError(
            f"{CONFIG}: parts: {stored.name}: cannot be made: {type(error).__name__}: {str(error)[:200]}"
        ) from error
