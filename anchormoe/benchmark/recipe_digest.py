"""Digests of the library's sources: which code a stored benchmark run is of."""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_ASIDE = ("benchmark", "bundle", "data", "explain", "metrics", "profiles")
"""Packages that cannot change what a method predicts: they score, store, show or load (data have their own digest)."""
_ROOT = Path(__file__).parent.parent


@cache
def code_digest(recipe: str) -> str:
    """Twelve hex digits over the library's sources, except those that cannot change what this recipe predicts."""
    aside = _ASIDE if recipe == "paper" else (*_ASIDE, "paper")
    return digest_files([path for path in _ROOT.rglob("*.py") if path.relative_to(_ROOT).parts[0] not in aside])


def digest_files(files: Iterable[Path]) -> str:
    """Twelve hex digits over files of the library and their names."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.relative_to(_ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
