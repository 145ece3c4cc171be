"""Replaces a file, or a directory of files, so that a crash leaves the old or the new one, never half of either."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

_READABLE = 0o755


def replace_file(path: Path, data: bytes) -> None:
    """Durable when it returns: 1. write beside it 2. fsync 3. rename 4. fsync the directory."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        _write(partial, data)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    _sync_directory(path.parent)


def replace_directory(path: Path, files: Mapping[str, bytes]) -> None:
    """The same for a flat directory; whatever it held before is removed.

    A directory cannot be renamed over another one, so the old one is first renamed to a hidden name: between the two
    renames there is no directory at `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.partial-", dir=path.parent))
    try:
        partial.chmod(_READABLE & ~_umask())
        for name, data in files.items():
            _write(partial / name, data)
        _sync_directory(partial)
        old = _rename_aside(path)
        partial.replace(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    _sync_directory(path.parent)
    if old is not None:
        shutil.rmtree(old)


def _rename_aside(path: Path) -> Path | None:
    if not path.exists():
        return None
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.old-", dir=path.parent))
    path.replace(aside)
    return aside


def _umask() -> int:
    """Of this process; it can only be read by setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    """A rename is durable only once the directory is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
