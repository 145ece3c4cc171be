"""Replaces a file as a whole, so that a crash or a power cut leaves the old content or the new one."""

import os
from collections.abc import Iterable
from pathlib import Path

from connectors.file_access import FILE_MODE


def replace_file(path: Path, data: bytes | Iterable[bytes]) -> None:
    """1. write a draft beside the file  2. fsync it  3. rename it over the file  4. fsync the directory.

    An existing file keeps its permissions; a new one is for the owner and its group. Raises OSError; then the file is
    as it was, and the draft is removed.
    """
    draft = path.with_name(f"{path.name}.new")
    try:
        with open(draft, "wb", opener=_open_private) as file:
            if path.exists():
                os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, FILE_MODE)


def sync_directory(directory: Path) -> None:
    """A file that was created or renamed is safe only once its directory is on the disk too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
