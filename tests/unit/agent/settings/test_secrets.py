"""A secret in a file can be rotated while the agent runs, and no log line has the new one either."""

import os
from pathlib import Path
from typing import Any

from agent.logs import redaction
from agent.settings.secrets import FileSecret


def redact(line: Any) -> Any:
    return redaction(())(None, "", line)


def replace_file(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(text)
    os.replace(part, path)


def test_the_new_value_counts_at_once_and_is_hidden(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first-token\n")
    secret = FileSecret(path, "first-token")
    assert secret.get_secret_value() == "first-token"
    replace_file(path, "second-token\n")
    assert secret.get_secret_value() == "second-token"
    assert "second-token" not in repr(secret)
    assert redact("sent second-token") == "sent ***"


def test_a_file_that_is_missing_empty_or_not_text_leaves_the_last_value(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first-token")
    secret = FileSecret(path, "first-token")
    path.unlink()
    assert secret.get_secret_value() == "first-token"
    replace_file(path, " \n")
    assert secret.get_secret_value() == "first-token"
    path.write_bytes(b"\xff\xfe\xff")
    assert secret.get_secret_value() == "first-token"
    replace_file(path, "third-token")
    assert secret.get_secret_value() == "third-token"


def test_tokens_of_users_are_hidden_although_no_setting_has_them() -> None:
    line = "got Bearer amt_K9x-abcdefghijklmnopqrstuvwxyz_0123456789ABC from 10.0.0.1"
    assert redact(line) == "got Bearer *** from 10.0.0.1"
