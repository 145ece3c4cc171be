"""Who may read the files that we write, and one writer at a time: modes, and locks between processes."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from connectors.errors import ConnectorError

FILE_MODE = 0o640
"""Events and dead letters may hold patients' data: for the owner and its group, for nobody else."""
LOCK_NAME = ".lock"
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}
_TRY_EVERY_S = 0.01
_READERS_WAIT_S = 5.0


def directory_mode(file_mode: int) -> int:
    """Whoever may read the files may list their directory; only the owner may change it."""
    return 0o700 | (file_mode & 0o044) | (file_mode & 0o044) >> 2


def make_directory(path: Path, file_mode: int = FILE_MODE) -> None:
    """With its parents; those that exist stay as they are. Raises OSError."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for created in missing:
        with suppress(FileNotFoundError):  # `a/../b` may name what is not there
            created.chmod(directory_mode(file_mode))


def open_for_append(path: Path, file_mode: int = FILE_MODE) -> int:
    """A descriptor to read, append and truncate. Files of earlier versions were open to all: the mode is set again."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, file_mode)
    with suppress(PermissionError):  # another user's file in our directory
        if os.fstat(descriptor).st_mode & 0o777 != file_mode:
            os.fchmod(descriptor, file_mode)
    return descriptor


def write_all(descriptor: int, data: bytes) -> None:
    """A write may end early; the next one then says why."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


@contextmanager
def locked(descriptor: int, path: Path, *, timeout_s: float) -> Iterator[None]:
    """The only holder, among all processes, of the lock on this open file. Raises ConnectorError."""
    _wait_for_lock(descriptor, path, time.monotonic() + timeout_s)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def locked_for_reading(directory: Path) -> Iterator[None]:
    """No file of the directory is rotated meanwhile, if its writer uses locks and we may see them."""
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        with suppress(OSError, ConnectorError):  # a reader never fails because of a writer that hangs
            _wait_for_lock(descriptor, directory, time.monotonic() + _READERS_WAIT_S, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)  # and the lock with it


def _wait_for_lock(descriptor: int, path: Path, deadline_s: float, kind: int = fcntl.LOCK_EX) -> None:
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() >= deadline_s:
                raise ConnectorError(f"{path} is locked by another process that does not let go of it") from error
        except OSError as error:
            if error.errno in _NO_LOCKS:
                raise ConnectorError(
                    f"{path}: the file system has no locks, so two agents could destroy each other's lines; "
                    "name a directory on another one"
                ) from error
            raise
        time.sleep(_TRY_EVERY_S)
