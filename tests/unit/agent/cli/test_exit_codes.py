"""Exit codes tell a supervisor whether trying again can help: 2 never, 75 perhaps, 1 something failed."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.cli.main import main
from tests.support.offline_plant import write_plant

SECRET: dict[str, Any] = {"http": {"port": 0, "token": {"file": "token"}}}


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    def run(*arguments: object) -> int:
        monkeypatch.setattr("sys.argv", ["anchormoe-agent", *map(str, arguments)])
        monkeypatch.setattr("agent.logs.set_up_logs", lambda *_, **__: None)  # would take pytest's own handlers away
        with pytest.raises(SystemExit) as left:
            main()
        return int(left.value.code or 0)

    return run


COMMANDS = [("run", "--config"), ("validate",)]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_secret_that_is_not_there_yet_may_come(
    tmp_path: Path, code: Callable[..., int], command: tuple[str, ...]
) -> None:
    plant = write_plant(tmp_path, **SECRET)
    assert code(*command, plant) == 75
    (tmp_path / "token").write_text("")
    assert code(*command, plant) == 75
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    assert code(*command, plant) == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_a_bundle_on_a_share_that_is_not_mounted_yet_may_come(
    tmp_path: Path, code: Callable[..., int], command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    plant = write_plant(tmp_path)
    (tmp_path / "bundle").rename(tmp_path / "elsewhere")
    assert code(*command, plant) == 75
    assert "there is no bundle in" in capsys.readouterr().err
    (tmp_path / "bundle").mkdir()  # the mount point
    assert code(*command, plant) == 75
    (tmp_path / "bundle" / "config.json").write_text("{}")
    assert code(*command, plant) == 2


def test_what_is_wrong_besides_what_is_missing_is_not_tried_again(tmp_path: Path, code: Callable[..., int]) -> None:
    plant = write_plant(tmp_path, **SECRET, emission={"policy": "sometimes"})
    assert code("run", "--config", plant) == 2


def test_a_variable_that_is_not_set_is_not_tried_again(tmp_path: Path, code: Callable[..., int]) -> None:
    plant = write_plant(tmp_path, http={"port": 0, "token": {"env": "ANCHORMOE_NOT_SET"}})
    assert code("run", "--config", plant) == 2


def test_a_port_that_another_process_still_has_may_be_free_soon(tmp_path: Path, code: Callable[..., int]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        plant = write_plant(tmp_path, http={"host": "127.0.0.1", "port": taken.getsockname()[1]})
        assert code("run", "--config", plant) == 75


def test_verifying_on_a_gpu_that_is_not_there_is_wrong_usage_and_says_what_helps(
    monkeypatch: pytest.MonkeyPatch, code: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert code("bundle", "verify", "configs/bundles/pump", "--device", "cuda") == 2
    said = capfd.readouterr().err
    assert "torch finds no CUDA device here" in said
    assert "nvidia-smi" in said
