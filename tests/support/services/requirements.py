"""Finds the programs that the services need, and installs them where that is possible."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.services.places import CACHE, alone


class ServiceUnavailable(RuntimeError):
    """A service is not available here; the message says how to get it. Always a failure, never a skip."""


def run_tool(command: Sequence[str], timeout_s: float = 600) -> None:
    """Raises ServiceUnavailable with the end of the tool's output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env=_environment())
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceUnavailable(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip()[-1500:]
        raise ServiceUnavailable(f"`{' '.join(command)}` ended with {done.returncode}:\n{output}")


def can_install_packages() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install_packages(*names: str) -> None:
    """On Debian and Ubuntu as root."""
    with alone("apt"):
        run_tool(["apt-get", "update", "-q"])
        run_tool(["apt-get", "install", "-y", "-q", "--no-install-recommends", *names])


def unpacked_packages(name: str) -> Path:
    """The root of an unpacked Debian package with the libraries that this system lacks.

    Nothing is installed and no daemon starts; works without root if apt's package lists are there.
    """
    target = CACHE / f"debian-{name}"
    with alone("apt"):
        if not target.exists():
            _unpack(name, target)
    return target


def _unpack(name: str, target: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise ServiceUnavailable("this is not a Debian system: apt-get or dpkg-deb is missing")
    if can_install_packages():
        run_tool(["apt-get", "update", "-q"])
    partial, archives = target.with_suffix(".partial"), target.with_suffix(".archives")
    for folder in (partial, archives):
        shutil.rmtree(folder, ignore_errors=True)
    (archives / "partial").mkdir(parents=True)
    places = ["-o", "Debug::NoLocking=1", "-o", f"Dir::Cache::archives={archives}"]
    run_tool(["apt-get", "install", "-y", "-q", "--download-only", "--no-install-recommends", *places, name])
    for archive in sorted(archives.glob("*.deb")):
        run_tool(["dpkg-deb", "-x", str(archive), str(partial)])
    shutil.rmtree(archives)
    partial.rename(target)


def _environment() -> dict[str, str]:
    return {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
