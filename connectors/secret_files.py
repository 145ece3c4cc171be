"""Secrets in files, read again whenever they are needed, so that they can be changed without a restart."""

from collections.abc import Callable
from pathlib import Path


class SecretFile:
    """A file with a secret. While it cannot be read, or is empty, the secret is the one that was read last.

    `on_change` gets a new one before it is used, so that logs can hide it.
    """

    def __init__(self, path: Path, known: str, *, on_change: Callable[[str], None] | None = None) -> None:
        self.path = path
        self._known, self._on_change = known, on_change

    def read(self) -> str:
        try:
            found = self.path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):  # it is being replaced
            found = ""
        if found and found != self._known:
            self._known = found
            if self._on_change is not None:
                self._on_change(found)
        return self._known

    def __repr__(self) -> str:
        return f"SecretFile({str(self.path)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretFile) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)


def reveal_secret(secret: str | SecretFile | None) -> str | None:
    """As it is now."""
    return secret.read() if isinstance(secret, SecretFile) else secret
