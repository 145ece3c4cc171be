"""What the commands say when a service is away: one line that says what to do, and no traceback."""

from pathlib import Path

import pytest

from agent.cli.main import main
from tests.support.offline_plant import load_rule, write_plant

NOBODY = "127.0.0.1:9"
KAFKA = {"kind": "kafka", "bootstrap": NOBODY, "topics": ["sensors"]}
KEPT = {"kind": "kafka", "topics": {"events": "events", "states": "states", "dead_letters": "dead-letters"}}
REDIS = {"kind": "redis", "url": f"redis://:hidden-word@{NOBODY}/0"}


@pytest.fixture
def plant(tmp_path: Path) -> Path:
    return write_plant(tmp_path, source=KAFKA, sinks=[KEPT], models={"directory": "."})


def said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, list[str]]:
    monkeypatch.setattr("sys.argv", ["anchormoe-agent", *map(str, arguments)])
    monkeypatch.setattr("agent.logs.set_up_logs", lambda *_, **__: None)  # would take pytest's own handlers away
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0), [line for line in capsys.readouterr().err.splitlines() if "Ctrl-C" not in line]


@pytest.mark.parametrize(
    "command",
    [
        ("replay",),
        ("replay", "--input", "kafka:other-topic"),
        ("tail",),
        ("dead-letters", "list"),
        ("dead-letters", "replay"),
        ("models", "list"),
        ("simulate", "stream", "--to", "kafka", "--for", "1s", "--asset", "pump-1=pump"),
    ],
)
def test_a_broker_that_is_away_is_one_line(
    command: tuple[str, ...], plant: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("agent.app.model_loader", lambda settings: load_rule)
    code, lines = said(monkeypatch, capsys, *command, "--config", plant)
    assert code == 1, lines
    [line] = lines
    assert line.startswith("error: cannot ")
    assert f"at {NOBODY}: no broker answers there; start it, or correct the address or the security" in line


@pytest.mark.parametrize("command", [("list",), ("show", "pump-1"), ("reset", "pump-1", "--reason", "why")])
def test_a_store_that_is_away_is_one_line_without_its_password(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANCHORMOE_REDIS_URL", REDIS["url"])
    plant = write_plant(tmp_path, store={"kind": "redis"}, records={"control": "accept"})
    code, lines = said(monkeypatch, capsys, "windows", *command, "--config", plant)
    assert code == 1, lines
    [line] = lines
    assert line.startswith(f"error: cannot reach Redis: Error 111 connecting to {NOBODY}")
    assert "hidden-word" not in line


def test_a_reset_that_the_agents_would_not_obey_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant = write_plant(tmp_path, store={"kind": "redis", "url": "redis://127.0.0.1:1"})
    code, [line] = said(monkeypatch, capsys, "windows", "reset", "pump-1", "--reason", "why", "--config", plant)
    assert code == 2
    assert "set records.control: accept, restart the agents" in line
