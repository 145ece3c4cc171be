"""Where the harness keeps what it downloads and what it leaves behind."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVICES = Path(__file__).resolve().parent
REPOSITORY = SERVICES.parents[2]
CACHE = REPOSITORY / ".cache"
KEPT_LOGS = REPOSITORY / "out" / "test-logs"


@contextmanager
def alone(name: str) -> Iterator[None]:
    """One process at a time (pytest-xdist workers, two checks in one checkout) prepares the thing called `name`."""
    CACHE.mkdir(parents=True, exist_ok=True)
    handle = os.open(CACHE / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
