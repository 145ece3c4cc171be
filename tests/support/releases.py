"""Earlier versions of this project, unpacked from tests/fault/releases to test upgrades."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path

from tests.support.services.places import CACHE, REPOSITORY, alone

RELEASES = REPOSITORY / "tests" / "fault" / "releases"
EARLIER = "6c82954"
SENTENCE = Path("agent", "events", "sentence.py")
"""The one module that is this version's: its words have changed since, and events are compared byte by byte."""
_BUNDLE = REPOSITORY / "configs" / "bundles" / "pump"
_COMPILE_TIMEOUT_S = 600


@cache
def release_source(commit: str = EARLIER) -> Path:
    """A directory with the packages of that commit. It is kept, because its kernels are compiled at their first use."""
    words = hashlib.sha256((REPOSITORY / SENTENCE).read_bytes()).hexdigest()[:8]
    directory = CACHE / f"release-{commit}-{words}"
    with alone(directory.name):
        if not directory.exists():
            _unpack(commit, directory)
    return directory


def _unpack(commit: str, directory: Path) -> None:
    new = Path(tempfile.mkdtemp(prefix=f"{directory.name}-", dir=CACHE))
    with tarfile.open(RELEASES / f"{commit}.tar.xz") as archive:
        archive.extractall(new, filter="data")
    shutil.copyfile(REPOSITORY / SENTENCE, new / SENTENCE)
    new.rename(directory)
    command = [sys.executable, "-m", "agent.cli.main", "bundle", "verify", str(_BUNDLE)]
    environ = os.environ | {"PYTHONPATH": str(directory)}
    subprocess.run(command, check=True, capture_output=True, cwd=directory, env=environ, timeout=_COMPILE_TIMEOUT_S)
