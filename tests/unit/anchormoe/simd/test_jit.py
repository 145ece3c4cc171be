"""Compiled functions work wherever the package is installed, and are compiled once where they can be stored."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.caching import _CacheLocator

from anchormoe.simd import disk_cache, jit

ROOT = Path(__file__).parents[4]
MODULE = """
from anchormoe.simd.jit import compiled

@compiled
def double(number):
    return 2 * number
"""
PROGRAM = """
import logging, sys
logging.basicConfig()
sys.path.insert(0, sys.argv[1])
from numba.core import caching
if sys.argv[2] == "read-only":  # root may write anywhere: a directory's mode would not stop this test
    def refuse(locator):
        raise OSError(30, "Read-only file system")
    caching._CacheLocator.ensure_cache_path = refuse
from tried import double
assert double(21) == 42
print(sum(double.stats.cache_hits.values()), sum(double.stats.cache_misses.values()))
"""


def double(number: int) -> int:
    return 2 * number


@pytest.fixture(autouse=True)
def _told_again() -> None:
    disk_cache.tell_once.cache_clear()


def run(directory: Path, mode: str, cache: str = "") -> tuple[str, str]:
    """hits and misses, and what was said."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": cache, "HOME": str(directory)}
    command = [sys.executable, "-c", PROGRAM, str(directory), mode]
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip(), finished.stderr


@pytest.mark.parametrize("provided", [False, True])
def test_a_cache_that_can_only_be_read_is_read(provided: bool, tmp_path: Path) -> None:
    (tmp_path / "tried.py").write_text(MODULE)
    cache = str(tmp_path / "cache") if provided else ""
    assert run(tmp_path, "writable", cache) == ("0 1", "")
    assert run(tmp_path, "writable", cache) == ("1 0", "")
    assert run(tmp_path, "read-only", cache) == ("1 0", "")


def test_what_a_read_only_cache_lacks_is_compiled_and_said(tmp_path: Path) -> None:
    (tmp_path / "tried.py").write_text(MODULE)
    (tmp_path / "__pycache__").mkdir()
    counted, said = run(tmp_path, "read-only")
    assert counted == "0 1"
    assert "cannot be stored" in said
    assert "set NUMBA_CACHE_DIR" in said


def test_without_any_cache_functions_are_compiled_at_every_start_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        return None

    for locator in disk_cache._Located._locator_classes:
        monkeypatch.setattr(locator, "from_function", refuse)
    with caplog.at_level(logging.WARNING):
        assert jit.compiled(double)(21) == 42
        assert jit.inlined(double)(4) == 8
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "there is no directory to store compiled code in"
    ]


def test_a_full_disk_does_not_stop_a_model(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    function = jit.compiled(double)

    def refuse(locator: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_CacheLocator, "ensure_cache_path", refuse)
    assert function(1.5) == 3.0  # type: ignore[arg-type]
    assert "No space left on device" in caplog.text
