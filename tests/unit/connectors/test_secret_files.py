"""A secret in a file may be replaced, also in steps, while somebody reads it."""

from pathlib import Path

from pydantic import BaseModel

from agent.settings.environment import Environment, Secret
from agent.settings.secrets import current_secret
from connectors.secret_files import SecretFile, reveal_secret


def test_a_secret_is_what_the_file_holds_now(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("first\n")
    secret = SecretFile(path, "first")
    path.write_text("second\n")
    assert reveal_secret(secret) == "second"
    assert reveal_secret("plain") == "plain"
    assert reveal_secret(None) is None


def test_while_the_file_is_missing_empty_or_no_text_the_last_secret_stays(tmp_path: Path) -> None:
    path = tmp_path / "password"
    secret = SecretFile(path, "first")
    assert secret.read() == "first"
    path.write_text("second")
    assert secret.read() == "second"
    for content in (b"", b"  \n", b"\xff\xfe"):
        path.write_bytes(content)
        assert secret.read() == "second"
    path.unlink()
    assert secret.read() == "second"


def test_a_new_secret_is_told_once_before_it_is_used(tmp_path: Path) -> None:
    path, told = tmp_path / "password", list[str]()
    secret = SecretFile(path, "first", on_change=told.append)
    for content in ("first", "second", "second", "", "third"):
        path.write_text(content)
        secret.read()
    assert told == ["second", "third"]


def test_its_text_does_not_show_it(tmp_path: Path) -> None:
    assert "hush" not in repr(SecretFile(tmp_path / "password", "hush"))


def test_a_secret_of_the_settings_that_is_in_a_file_can_be_read_again(tmp_path: Path) -> None:
    class Login(BaseModel):
        password: Secret | None = None

    (tmp_path / "password").write_text("first")
    environment = Environment(tmp_path, {"VARIABLE": "fixed"})
    in_file = Login.model_validate({"password": {"file": "password"}}, context=environment).password
    (tmp_path / "password").write_text("second")
    assert in_file is not None
    assert in_file.get_secret_value() == reveal_secret(current_secret(in_file)) == "second"
    in_variable = Login.model_validate({"password": {"env": "VARIABLE"}}, context=environment).password
    assert current_secret(in_variable) == "fixed"
    assert current_secret(Login().password) is None
    assert current_secret(Login.model_validate({"password": {"file": "nowhere"}}).password) == "<file nowhere>"
