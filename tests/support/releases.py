"""Earlier versions of this project, unpacked from tests/fault/releases to test upgrades."""

import tarfile
import tempfile
from functools import cache
from pathlib import Path

RELEASES = Path(__file__).parents[1] / "fault" / "releases"
EARLIER = "2c01e13"


@cache
def release_source(commit: str = EARLIER) -> Path:
    """A directory with the packages of that commit; removed by whoever cleans the temporary directory."""
    directory = Path(tempfile.mkdtemp(prefix=f"anchormoe-{commit}-"))
    with tarfile.open(RELEASES / f"{commit}.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return directory
