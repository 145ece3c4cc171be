"""The users file: tokens are stored as hashes, changes count at once, and a doubtful file lets nobody in."""

import os
from pathlib import Path

import pytest

from agent.errors import SettingsError
from agent.web.users import (
    ROLES,
    UsersFile,
    add_user,
    find_user,
    hash_token,
    parse_users,
    read_users,
    remove_user,
    rotate_token,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "users.yaml"


def test_a_token_is_found_and_the_file_has_only_its_hash(path: Path) -> None:
    token = add_user(path, "ada", "operate")
    found = UsersFile(path).find(token)
    assert found is not None
    assert (found.name, found.role) == ("ada", "operate")
    assert token not in path.read_text()
    assert hash_token(token) in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(token) >= 43  # 256 bits


def test_each_role_may_do_what_the_one_before_it_may(path: Path) -> None:
    for role in ROLES:
        add_user(path, role, role)
    allowed = {user.name: [user.may(role) for role in ROLES] for user in read_users(path)}
    assert allowed == {
        "view": [True, False, False],
        "operate": [True, True, False],
        "engineer": [True, True, True],
    }


def test_a_running_server_sees_added_rotated_and_removed_users(path: Path) -> None:
    users = UsersFile(path)
    assert users.users() == ()  # the file may come later
    old = add_user(path, "ada", "view")
    assert users.find(old) is not None
    new = rotate_token(path, "ada")
    assert users.find(old) is None
    assert users.find(new) is not None
    remove_user(path, "ada")
    assert users.find(new) is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_lets_nobody_in(path: Path, mode: int) -> None:
    token = add_user(path, "ada", "engineer")
    path.chmod(mode)
    assert UsersFile(path).find(token) is None


def test_a_file_that_breaks_while_the_server_runs_lets_nobody_in(path: Path) -> None:
    token = add_user(path, "ada", "engineer")
    users = UsersFile(path)
    assert users.find(token) is not None
    path.write_text("users: [")
    assert users.find(token) is None
    path.unlink()
    assert users.find(token) is None


@pytest.mark.parametrize("name", ["", "system", "Service", "a\nb", "a b", "é", "../x", "x" * 65, "-a", "\x1b[31m"])
def test_a_name_that_would_forge_the_audit_is_refused(path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="is not a user name"):
        add_user(path, name, "view")
    assert not path.exists()


def test_a_user_is_added_once_and_removed_once(path: Path) -> None:
    add_user(path, "ada", "view")
    before = path.read_bytes()
    with pytest.raises(SettingsError, match="users rotate"):
        add_user(path, "ada", "engineer")
    with pytest.raises(SettingsError, match="there is no user 'bob'"):
        remove_user(path, "bob")
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["users.yaml"]


@pytest.mark.parametrize(
    "text",
    [
        "- 1",
        "users: 7",
        "users: [{name: ada}]",
        "users: [{name: ada, role: root, token_sha256: " + "a" * 64 + "}]",
        "users: [{name: ada, role: view, token_sha256: plain}]",
        "users: [{name: 1, role: view, token_sha256: " + "a" * 64 + "}]",
        "users: [{name: system, role: view, token_sha256: " + "a" * 64 + "}]",
        "users: [{name: ada, role: [view], token_sha256: " + "a" * 64 + "}]",
        "users: []\nmore: 1",
        "!!python/object/apply:os.system ['true']",
        "\x00",
        "!!timestamp 2024-13-99",
    ],
)
def test_a_file_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"users\.yaml"):
        parse_users(text.encode(), "users.yaml")


def test_two_users_with_one_name_or_one_token_are_refused() -> None:
    one = "{name: ada, role: view, token_sha256: " + "a" * 64 + "}"
    same_token = one.replace("ada", "bob")
    for pair in ([one, one], [one, same_token]):
        with pytest.raises(SettingsError, match="two users"):
            parse_users(f"users: [{', '.join(pair)}]".encode(), "users.yaml")


def test_an_empty_file_has_no_users() -> None:
    assert parse_users(b"", "users.yaml") == ()
    assert find_user((), "anything") is None
