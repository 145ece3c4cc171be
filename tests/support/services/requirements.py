"""Finds the programs that the services need, and installs them where that is possible."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.services.places import CACHE, alone

_PAUSES_S = (5.0, 30.0)
_APT = ("apt-get", "-q", "-o", "Acquire::Retries=3", "-o", "Acquire::http::Timeout=60", "-o", "DPkg::Lock::Timeout=120")
_INSTALL = (*_APT, "install", "-y", "--no-install-recommends")


class ServiceUnavailable(RuntimeError):
    """A service is not available here; the message says how to get it. Always a failure, never a skip."""


def run_tool(command: Sequence[str], timeout_s: float = 600, *, environment: Mapping[str, str] | None = None) -> None:
    """Raises ServiceUnavailable with the end of the tool's output."""
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", **(environment or {})}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env=environ)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceUnavailable(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip()[-1500:]
        raise ServiceUnavailable(f"`{' '.join(command)}` ended with {done.returncode}:\n{output}")


def fetch(*commands: Sequence[str], timeout_s: float = 600, environment: Mapping[str, str] | None = None) -> None:
    """Runs commands that download, and all of them again when one fails. Raises ServiceUnavailable after three tries.

    Registries answer slowly now and then, and a run of hours must not be lost for that.
    """
    for pause_s in (*_PAUSES_S, None):
        try:
            for command in commands:
                run_tool(command, timeout_s, environment=environment)
        except ServiceUnavailable as error:
            if pause_s is None:
                raise
            print(f"{error}\ntrying again in {pause_s:g} s", file=sys.stderr)
            time.sleep(pause_s)
        else:
            return


def can_install_packages() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install_packages(*names: str) -> None:
    """On Debian and Ubuntu as root."""
    with alone("apt"):
        fetch([*_APT, "update"], [*_INSTALL, *names])


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
    partial, archives = target.with_suffix(".partial"), target.with_suffix(".archives")
    for folder in (partial, archives):
        shutil.rmtree(folder, ignore_errors=True)
    (archives / "partial").mkdir(parents=True)
    places = ["-o", "Debug::NoLocking=1", "-o", f"Dir::Cache::archives={archives}"]
    update = [[*_APT, "update"]] if can_install_packages() else []
    fetch(*update, [*_INSTALL, "--download-only", *places, name])
    for archive in sorted(archives.glob("*.deb")):
        run_tool(["dpkg-deb", "-x", str(archive), str(partial)])
    shutil.rmtree(archives)
    partial.rename(target)
