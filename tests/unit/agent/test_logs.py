"""What reaches stderr: one form for all, libraries from warning on, no secrets, no floods."""

import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog
from pydantic import BaseModel, SecretStr

from agent.logs import Repeats, secrets_in, set_up_logs


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_ours_and_the_libraries_lines_have_the_same_form(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs("json", "info")
    structlog.get_logger().info("partition taken", partition="t[0]")
    logging.getLogger("aiokafka.consumer").warning("heartbeat failed for %s", "group")
    ours, foreign = lines(capsys)
    assert (ours["event"], ours["level"], ours["partition"]) == ("partition taken", "info", "t[0]")
    assert (foreign["event"], foreign["level"]) == ("heartbeat failed for group", "warning")
    assert foreign["logger"] == "aiokafka.consumer"
    assert foreign.keys() - ours.keys() == {"logger"}


def test_libraries_speak_from_warning_on_even_when_we_say_all(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs("json", "debug")
    logging.getLogger("aiokafka").info("joined")
    structlog.get_logger().debug("lag unknown")
    assert [line["event"] for line in lines(capsys)] == ["lag unknown"]


def test_the_level_holds_for_both(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs("json", "error")
    logging.getLogger("aiokafka").warning("slow")
    structlog.get_logger().warning("store unreachable")
    assert lines(capsys) == []


def test_no_line_shows_a_secret_whoever_writes_it(capsys: pytest.CaptureFixture[str]) -> None:
    secret = 'pa"ss\\wörd'
    set_up_logs("json", "info", secrets=[secret])
    structlog.get_logger().info("connecting", options={"password": secret})
    logging.getLogger("redis").error("refused: %s", secret)
    try:
        raise OSError(f"bad login {secret}")
    except OSError:
        structlog.get_logger().exception("failed")
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 3
    assert shown.count("***") >= 3
    assert "wörd" not in shown
    assert "w\\u00f6rd" not in shown


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_password_inside_an_address_is_hidden(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(form, "info")  # type: ignore[arg-type]
    structlog.get_logger().info("no answer", url="redis://agent:hunter2@store:6379/0")
    shown = capsys.readouterr().err
    assert "hunter2" not in shown
    assert "redis://***@store:6379/0" in shown


def test_every_secret_of_the_settings_is_found_however_deep() -> None:
    class Inner(BaseModel):
        token: SecretStr | None = None

    class Outer(BaseModel):
        first: Inner
        many: tuple[Inner, ...]
        password: SecretStr

    settings = Outer(first=Inner(), many=(Inner(token=SecretStr("deep-one")),), password=SecretStr("top-one"))
    assert secrets_in(settings) == {"deep-one", "top-one"}


def test_the_same_words_of_a_library_are_heard_every_ten_seconds() -> None:
    now = [0.0]
    repeats = Repeats(lambda: now[0])

    def heard(at: float, message: str) -> bool:
        now[0] = at
        return repeats.filter(logging.LogRecord("aiokafka", logging.ERROR, "", 0, message, (), None))

    assert heard(0.0, "unable to connect to %s")
    assert not heard(0.0, "unable to connect to %s")
    assert not heard(9.9, "unable to connect to %s")
    assert heard(9.9, "another trouble")
    assert heard(10.0, "unable to connect to %s")


HOSTILE = "pump\x1b[2J\x9b31m\u202e\ud800\nfake [info] all is well"


@pytest.mark.parametrize("form", ["json", "console"])
def test_text_from_outside_neither_forges_a_line_nor_commands_the_terminal(
    capsys: pytest.CaptureFixture[str], form: Literal["json", "console"]
) -> None:
    set_up_logs(form, "info")
    structlog.get_logger().warning(f"record of {HOSTILE}", asset=HOSTILE, several=[HOSTILE])
    logging.getLogger("aiokafka").warning("unknown key %s", HOSTILE)
    written = capsys.readouterr().err.splitlines()
    assert len(written) == 2
    assert all(line.isprintable() for line in written)


def test_a_traceback_on_the_console_is_escaped_too(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs("console", "info")
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        structlog.get_logger().exception("failed")
    written = capsys.readouterr().err
    assert "ValueError: pump\\x1b[2J" in written
    assert all(line.isprintable() for line in written.split("\n"))


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_secret_with_characters_that_are_escaped_is_hidden_all_the_same(
    capsys: pytest.CaptureFixture[str], form: Literal["json", "console"]
) -> None:
    set_up_logs(form, "info", secrets=["hush\u200bhush\t!"])
    structlog.get_logger().info("connecting", password="hush\u200bhush\t!")
    assert "hush" not in capsys.readouterr().err
