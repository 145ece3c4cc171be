"""What the commands write is not readable by everybody."""

import subprocess
import sys
from pathlib import Path

import pytest


def modes(directory: Path) -> dict[str, int]:
    return {str(path.relative_to(directory)): path.stat().st_mode & 0o777 for path in directory.rglob("*")}


def run(*arguments: str, umask: int, cwd: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "agent", *arguments], cwd=cwd, umask=umask, check=True, capture_output=True, timeout=120
    )


@pytest.mark.parametrize(
    ("umask", "file", "directory"), [(0o022, 0o640, 0o750), (0o000, 0o640, 0o750), (0o077, 0o600, 0o700)]
)
def test_recordings_are_for_the_owner_and_the_group(tmp_path: Path, umask: int, file: int, directory: int) -> None:
    run(
        "simulate",
        "recordings",
        "patient",
        "--out",
        "new/recordings",
        "--count",
        "1",
        "--samples",
        "1100",
        umask=umask,
        cwd=tmp_path,
    )
    found = modes(tmp_path)
    assert len(found) > 2
    assert {mode for name, mode in found.items() if (tmp_path / name).is_file()} == {file}
    assert {mode for name, mode in found.items() if (tmp_path / name).is_dir()} == {directory}
