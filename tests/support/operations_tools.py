"""Programs of Prometheus and Kubernetes that the tests of deploy/ need: found, unpacked or built; kept in .cache."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.support.services.places import CACHE, alone
from tests.support.services.requirements import ServiceUnavailable, fetch, unpacked_packages

HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
_BUILD_S = 1800


def promtool() -> Path:
    """Raises ServiceUnavailable with the ways to get it."""
    return _of_prometheus("promtool")


def prometheus() -> Path:
    return _of_prometheus("prometheus")


@cache
def _of_prometheus(name: str) -> Path:
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    try:
        return unpacked_packages("prometheus") / "usr/bin" / name
    except ServiceUnavailable as error:
        hint = f"The tests need {name}: install Debian's package `prometheus`, or put {name} on the PATH"
        raise ServiceUnavailable(f"{hint}. Unpacking the package failed:\n{error}") from error


@cache
def helm() -> Path:
    """From the development tools (`helm-binary`) or the PATH; else built from Go's modules, or ServiceUnavailable."""
    beside, found = Path(sys.executable).parent / "helm", shutil.which("helm")
    if beside.exists() or found is not None:
        return beside if beside.exists() else Path(str(found))
    target = CACHE / HELM.replace("/", "-") / "helm"
    with alone("helm"):
        if not target.exists():
            _build(HELM, target)
    return target


def _build(module: str, target: Path) -> None:
    go = shutil.which("go")
    hint = "The tests need helm 3: `make setup`, or put it on the PATH, or install Go to build it once (some minutes)"
    if go is None:
        raise ServiceUnavailable(f"{hint}. There is no go here")
    place = target.parent.with_suffix(".partial")
    try:
        fetch([go, "install", module], timeout_s=_BUILD_S, environment={"GOBIN": str(place), "GOFLAGS": "-p=1"})
    except ServiceUnavailable as error:
        raise ServiceUnavailable(f"{hint}. Building it failed:\n{error}") from error
    place.rename(target.parent)


def output_of(command: Sequence[str | Path], *, text: str | None = None, fails: bool = False) -> str:
    """Both streams of a program that must end well, or must not."""
    done = subprocess.run([str(part) for part in command], input=text, capture_output=True, text=True, timeout=300)
    assert (done.returncode != 0) == fails, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr
