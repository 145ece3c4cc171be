"""What several commands have in common."""

import os

import pytest

from agent.cli.inputs import user_name


def test_a_user_without_a_name_is_told_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs as a user of the cluster's choice."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 1_000_670_000)
    assert user_name() == "uid-1000670000"
    monkeypatch.setenv("USER", "ada")
    assert user_name() == "ada"
