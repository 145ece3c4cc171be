"""A directory of bundles as people choose from it: places, digests, figures. Reads manifests, never weights."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anchormoe.bundle.config import BundleConfig
from anchormoe.bundle.files import CONFIG, MANIFEST, parse_json, read_file, sha256
from anchormoe.errors import ModelError

_SHORTEST_DIGEST = 6


@dataclass(frozen=True, slots=True)
class StoredBundle:
    """A bundle by what it says about itself; `problem` instead where it cannot be read. `place` is None for the
    configured one, which may lie elsewhere."""

    place: str | None
    digest: str = ""
    name: str = ""
    version: str = ""
    accuracy: float | None = None
    created_ns: int = 0
    problem: str | None = None


def list_bundles(directory: Path) -> list[StoredBundle]:
    """All sub-directories with a manifest, by name; hidden ones are still being written."""
    if not directory.is_dir():
        raise ModelError(f"{directory}: there is no such directory of bundles")
    found = sorted(path for path in directory.iterdir() if not path.name.startswith(".") and path.is_dir())
    return [describe_bundle(path, path.name) for path in found if (path / MANIFEST).exists()]


def describe_bundle(directory: Path, place: str | None) -> StoredBundle:
    try:
        content = read_file(directory, MANIFEST)
        facts = BundleConfig.from_dict(parse_json(read_file(directory, CONFIG), CONFIG), sha256(content))
        accuracy = _accuracy(parse_json(content, MANIFEST))
        created_ns = (directory / MANIFEST).stat().st_mtime_ns
    except (ModelError, OSError) as error:
        return StoredBundle(place, problem=str(error))
    return StoredBundle(place, facts.digest, facts.name, facts.version, accuracy, created_ns)


def bundle_path(directory: Path, place: str) -> Path:
    """Where a bundle lies; an activation cannot lead out of the directory. Raises ModelError."""
    path = directory / place
    if not path.resolve().is_relative_to(directory.resolve()) or path.resolve() == directory.resolve():
        raise ModelError(f"{place}: not inside the directory of bundles")
    return path


def find_bundle(bundles: list[StoredBundle], wanted: str) -> StoredBundle:
    """By place or by the beginning of the digest. Raises ModelError."""
    fitting = [each for each in bundles if each.place == wanted.rstrip("/")] or [
        each for each in bundles if len(wanted) >= _SHORTEST_DIGEST and each.digest.startswith(wanted)
    ]
    if len({each.digest for each in fitting}) > 1:
        raise ModelError(f"{wanted}: more than one bundle has a digest like this")
    if not fitting:
        raise ModelError(
            f"{wanted}: there is no such bundle; there are {', '.join(str(each.place) for each in bundles)}"
        )
    if fitting[0].problem is not None:
        raise ModelError(f"{wanted}: {fitting[0].problem}")
    return fitting[0]


def _accuracy(manifest: dict[str, Any]) -> float | None:
    """Out-of-fold, because every bundle has it and nobody chose a model by it afterwards."""
    figures = manifest.get("metrics", {}).get("out_of_fold", {})
    value = figures.get("accuracy") if isinstance(figures, dict) else None
    return float(value) if isinstance(value, int | float) else None
