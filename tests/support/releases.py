"""Earlier versions of this project, unpacked from tests/fault/releases to test upgrades."""

import os
import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path

from tests.support.services.places import CACHE, REPOSITORY, alone

RELEASES = REPOSITORY / "tests" / "fault" / "releases"
EARLIER = "6c82954"
_BUNDLE = REPOSITORY / "configs" / "bundles" / "pump"
_COMPILE_TIMEOUT_S = 600


@cache
def release_source(commit: str = EARLIER) -> Path:
    """A directory with the packages of that commit. It is kept, because its kernels are compiled at their first use."""
    directory = CACHE / f"release-{commit}"
    with alone(directory.name):
        if not directory.exists():
            _unpack(commit, directory)
    return directory


def _unpack(commit: str, directory: Path) -> None:
    new = Path(tempfile.mkdtemp(prefix=f"{directory.name}-", dir=CACHE))
    with tarfile.open(RELEASES / f"{commit}.tar.xz") as archive:
        archive.extractall(new, filter="data")
    new.rename(directory)
    command = [sys.executable, "-m", "agent.cli.main", "bundle", "verify", str(_BUNDLE)]
    environ = os.environ | {"PYTHONPATH": str(directory)}
    subprocess.run(command, check=True, capture_output=True, cwd=directory, env=environ, timeout=_COMPILE_TIMEOUT_S)
