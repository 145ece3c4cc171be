"""Where the test services keep downloads and the logs of failed tests."""

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
    """Only one process at a time prepares the thing called `name`: pytest-xdist workers, two runs in one checkout."""
    CACHE.mkdir(parents=True, exist_ok=True)
    handle = os.open(CACHE / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
