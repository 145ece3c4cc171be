"""Secrets in files, which can be replaced while the agent runs."""

from pathlib import Path

from pydantic import SecretStr

from agent.logs import hide_secret
from connectors.secret_files import SecretFile


class FileSecret(SecretStr):
    """Reads its file again with every use. An unreadable or empty file leaves the last value."""

    def __init__(self, path: Path, value: str) -> None:
        super().__init__(value)
        self.file = SecretFile(path, value, on_change=hide_secret)

    def get_secret_value(self) -> str:
        """Ask for it with every use, and keep it nowhere: then a rotation counts at once."""
        return self.file.read()


def current_secret(secret: SecretStr | None) -> str | SecretFile | None:
    """For clients that connect again and again: where the secret is in a file, the file."""
    if isinstance(secret, FileSecret):
        return secret.file
    return None if secret is None else secret.get_secret_value()
