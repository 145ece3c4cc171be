"""A file is replaced as a whole, whatever happens on the way."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.atomic_file import replace_file

CRASH = """
import os, sys
from pathlib import Path
from connectors.atomic_file import replace_file

step, calls = sys.argv[2], []

def crash_at(name):
    original = getattr(os, name)
    def wrapped(*given):
        calls.append(name)
        if f"{name}:{calls.count(name)}" == step:
            os._exit(9)
        return original(*given)
    setattr(os, name, wrapped)

for name in ("fsync", "replace"):
    crash_at(name)
replace_file(Path(sys.argv[1]), b"new" * 100_000)
"""

OLD, NEW = b"old" * 100_000, b"new" * 100_000


@pytest.mark.parametrize(
    ("step", "content"),
    [("fsync:1", OLD), ("replace:1", OLD), ("fsync:2", NEW), ("none", NEW)],
    ids=["draft written", "draft safe", "renamed", "no crash"],
)
def test_a_crash_between_two_steps_leaves_the_old_content_or_the_new_one(
    tmp_path: Path, step: str, content: bytes
) -> None:
    path = tmp_path / "positions.json"
    path.write_bytes(OLD)
    ended = subprocess.run([sys.executable, "-c", CRASH, str(path), step], check=False)
    assert ended.returncode == (0 if step == "none" else 9)
    assert path.read_bytes() == content
    replace_file(path, b"after the restart")
    assert path.read_bytes() == b"after the restart"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "positions.json"
    path.write_bytes(OLD)
    path.chmod(0o640)
    replace_file(path, NEW)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_is_not_for_everybody(tmp_path: Path) -> None:
    replace_file(tmp_path / "new", NEW)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


def test_lines_are_written_as_they_come(tmp_path: Path) -> None:
    replace_file(tmp_path / "lines", (b"%d\n" % number for number in range(3)))
    assert (tmp_path / "lines").read_bytes() == b"0\n1\n2\n"


def test_a_disk_that_refuses_leaves_the_old_content_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "positions.json"
    path.write_bytes(OLD)

    def lines() -> Iterator[bytes]:
        yield NEW
        raise OSError(28, os.strerror(28))

    with pytest.raises(OSError, match="No space left"):
        replace_file(path, lines())
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]
