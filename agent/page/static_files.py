"""The page's own files: read once, named by their digest, with explicit content types."""

import gzip
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
    ".png": "image/png",
}
"""With `nosniff` a wrong type breaks modules, and the machine's own table may be wrong."""
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_VERSION = b"__VERSION__"
_MODULES = b"<!-- modules -->"
"""Here the start page names every module, so that a browser fetches them at once and not as it finds them."""
_PRELOAD = '<link rel="modulepreload" href="/s/__VERSION__/{}">'
_REPLACED_IN = (".html", ".css")


@dataclass(frozen=True, slots=True)
class StaticFile:
    content: bytes
    compressed: bytes
    content_type: str


class StaticFiles:
    """`version` changes with any byte of any file."""

    def __init__(self, root: Traversable | None = None) -> None:
        found = dict(_walk(root or files("agent.page") / "static"))
        digest = hashlib.sha256()
        for name in sorted(found):
            digest.update(name.encode() + b"\0" + hashlib.sha256(found[name]).digest())
        self.version = digest.hexdigest()[:16]
        self._modules = "\n".join(_PRELOAD.format(name) for name in sorted(found) if _is_module(name)).encode()
        self._files = {name: self._file(name, content) for name, content in found.items()}

    def get(self, name: str) -> StaticFile | None:
        return self._files.get(name)

    def names(self) -> list[str]:
        return sorted(self._files)

    def _file(self, name: str, content: bytes) -> StaticFile:
        suffix = _suffix(name)
        if suffix in _REPLACED_IN:
            content = content.replace(_MODULES, self._modules).replace(_VERSION, self.version.encode())
        return StaticFile(content, gzip.compress(content, 6, mtime=0), CONTENT_TYPES[suffix])


def _walk(folder: Traversable, prefix: str = "") -> "list[tuple[str, bytes]]":
    found = []
    for one in folder.iterdir() if folder.is_dir() else ():
        if one.is_dir():
            found += _walk(one, f"{prefix}{one.name}/")
        elif _suffix(one.name) in CONTENT_TYPES:
            found.append((prefix + one.name, one.read_bytes()))
    return found


def _is_module(name: str) -> bool:
    return name.endswith((".js", ".mjs")) and ".iife." not in name


def _suffix(name: str) -> str:
    return name[name.rfind(".") :] if "." in name else ""
