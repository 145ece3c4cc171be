"""Secrets in files, which can be replaced while the agent runs."""

from pathlib import Path

from pydantic import SecretStr

from agent.logs import hide_secret


class FileSecret(SecretStr):
    """Reads its file again when that was changed or replaced. An unreadable or empty file leaves the last value."""

    def __init__(self, path: Path, value: str) -> None:
        super().__init__(value)
        self._path, self._seen = path, _fingerprint(path)

    def get_secret_value(self) -> str:
        """Ask for it with every use, and keep it nowhere: then a rotation counts at once."""
        seen = _fingerprint(self._path)
        if seen is not None and seen != self._seen:
            self._seen = seen
            self._read()
        return self._secret_value

    def _read(self) -> None:
        try:
            value = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return
        if value:
            hide_secret(value)
            self._secret_value = value


def _fingerprint(path: Path) -> tuple[int, int, int] | None:
    """None for a file that is not there, as between the two steps of a replacement."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
