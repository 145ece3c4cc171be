"""Secrets in files, which can be replaced while the agent runs."""

from pathlib import Path

from pydantic import SecretStr

from agent.logs import hide_secret
from connectors.secret_files import SecretFile


class FileSecret(SecretStr):
    """A secret that is in a file. `current` is for clients that connect again and again."""

    def __init__(self, path: Path, value: str) -> None:
        super().__init__(value)
        self.current = SecretFile(path, value, on_change=hide_secret)

    def get_secret_value(self) -> str:
        """Ask for it with every use, and keep it nowhere: then a rotation counts at once."""
        self._secret_value = self.current.read()
        return self._secret_value


def current_secret(secret: SecretStr | None) -> str | SecretFile | None:
    """For clients that connect again and again: where the secret is in a file, the file."""
    if isinstance(secret, FileSecret):
        return secret.current
    return None if secret is None else secret.get_secret_value()
