"""`anchormoe-agent users` as a person uses it."""

from pathlib import Path

import pytest

from agent.cli.main import main
from agent.web.users import UsersFile

MISTAKES = [("add", "ada", "--role", "root"), ("remove", "ada"), ("add", "a\x1b[2J", "--role", "view")]


def call(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["anchormoe-agent", "users", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_a_person_is_added_rotated_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "users.yaml")
    users = UsersFile(tmp_path / "users.yaml")
    assert call("add", "ada", "--role", "operate", "--file", file, monkeypatch=monkeypatch) == 0
    first = capsys.readouterr().out.strip()  # nothing but the token, so that a script can take it
    assert users.find(first) is not None
    capsys.readouterr()
    assert call("list", "--file", file, monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == "operate   ada\n"
    assert call("rotate", "ada", "--file", file, monkeypatch=monkeypatch) == 0
    second = capsys.readouterr().out.strip()
    assert users.find(first) is None
    assert users.find(second) is not None
    assert call("remove", "ada", "--file", file, monkeypatch=monkeypatch) == 0
    assert users.find(second) is None


@pytest.mark.parametrize("arguments", MISTAKES)
def test_a_mistake_is_one_line_and_exit_2(
    tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*arguments, "--file", str(tmp_path / "users.yaml"), monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert said.startswith("error:")
    assert "\x1b[2J" not in said
