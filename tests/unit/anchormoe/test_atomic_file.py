"""Files and directories are replaced at once, durably, or not at all."""

import os
from pathlib import Path
from typing import Any

import pytest

from anchormoe.atomic_file import replace_directory, replace_file


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reaches the disk, in order: fsync of a file or of a directory, and renames."""
    seen: list[str] = []
    sync, replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        kind = "directory" if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir() else "file"
        seen.append(f"sync {kind}")
        sync(descriptor)

    def rename(source: Any, target: Any) -> None:
        seen.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", rename)
    return seen


def test_a_file_is_synced_before_it_is_renamed_and_the_rename_after_it(tmp_path: Path, calls: list[str]) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b"old")
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert calls == ["sync file", "rename", "sync directory"]
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "no space left on device")

    path = tmp_path / "state.json"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        replace_file(path, b"new")
    with pytest.raises(OSError, match="no space left"):
        replace_directory(tmp_path / "bundle", {"a": b"1"})
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]


def test_a_file_gets_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    replace_file(tmp_path / "written", b"")
    assert (tmp_path / "written").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_directory_is_replaced_as_a_whole(tmp_path: Path, calls: list[str]) -> None:
    path = tmp_path / "deep" / "bundle"
    replace_directory(path, {"a": b"1", "b": b"2"})
    assert calls == ["sync file", "sync file", "sync directory", "rename", "sync directory"]
    replace_directory(path, {"c": b"3"})
    assert {one.name: one.read_bytes() for one in path.iterdir()} == {"c": b"3"}
    assert [one.name for one in path.parent.iterdir()] == ["bundle"]
    assert path.stat().st_mode & 0o777 == 0o755
