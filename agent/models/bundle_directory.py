"""The bundles in a directory: names, digests, figures. Reads manifests, never weights."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anchormoe.bundle.config import BundleConfig
from anchormoe.bundle.files import CONFIG, MANIFEST, parse_json, read_file, sha256
from anchormoe.errors import ModelError

_SHORTEST_DIGEST = 6


@dataclass(frozen=True, slots=True)
class StoredBundle:
    """What a bundle's manifest says, or in `problem` why it cannot be read.

    `directory` is its name in the directory of bundles; None for a configured bundle, which may be elsewhere.
    """

    directory: str | None
    digest: str = ""
    name: str = ""
    version: str = ""
    accuracy: float | None = None
    created_ns: int = 0
    problem: str | None = None


def list_bundles(directory: Path) -> list[StoredBundle]:
    """All sub-directories with a manifest, by name; hidden ones are still being written. Raises ModelError."""
    if not directory.is_dir():
        raise ModelError(f"{directory}: the directory of bundles does not exist")
    found = sorted(path for path in directory.iterdir() if not path.name.startswith(".") and path.is_dir())
    return [describe_bundle(path, path.name) for path in found if (path / MANIFEST).exists()]


def describe_bundle(path: Path, directory: str | None) -> StoredBundle:
    try:
        content = read_file(path, MANIFEST)
        facts = BundleConfig.from_dict(parse_json(read_file(path, CONFIG), CONFIG), sha256(content))
        accuracy = _accuracy(parse_json(content, MANIFEST))
        created_ns = (path / MANIFEST).stat().st_mtime_ns
    except (ModelError, OSError) as error:
        return StoredBundle(directory, problem=str(error))
    return StoredBundle(directory, facts.digest, facts.name, facts.version, accuracy, created_ns)


def bundle_path(bundles: Path, name: str) -> Path:
    """The path of a bundle; an activation cannot lead out of the directory of bundles. Raises ModelError."""
    path = bundles / name
    if not path.resolve().is_relative_to(bundles.resolve()) or path.resolve() == bundles.resolve():
        raise ModelError(f"{name}: not inside the directory of bundles")
    return path


def find_bundle(bundles: list[StoredBundle], wanted: str) -> StoredBundle:
    """By the name of its directory or the beginning of its digest. Raises ModelError."""
    matching = [each for each in bundles if each.directory == wanted.rstrip("/")] or [
        each for each in bundles if len(wanted) >= _SHORTEST_DIGEST and each.digest.startswith(wanted)
    ]
    if len({each.digest for each in matching}) > 1:
        raise ModelError(f"{wanted}: more than one bundle has a digest that begins like this; give more of it")
    if not matching:
        names = ", ".join(str(each.directory) for each in bundles) or "none"
        raise ModelError(f"{wanted}: no such bundle; the directory has {names}")
    if matching[0].problem is not None:
        raise ModelError(f"{wanted}: {matching[0].problem}")
    return matching[0]


def _accuracy(manifest: dict[str, Any]) -> float | None:
    """Out-of-fold, because every bundle has it and no model was selected by it."""
    metrics = manifest.get("metrics")
    figures = metrics.get("out_of_fold") if isinstance(metrics, dict) else None
    value = figures.get("accuracy") if isinstance(figures, dict) else None
    return float(value) if isinstance(value, int | float) else None
