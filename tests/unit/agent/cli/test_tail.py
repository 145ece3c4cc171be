"""tail before it connects: what it makes of its options, and what it says when it cannot begin."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from agent.cli.main import main
from agent.cli.tail import _begin, _told
from agent.contracts import parse_event
from connectors.records import Partition, Record
from tests.support.event_samples import samples

Call = Callable[..., tuple[int, str]]

PLANT = """\
namespace: hall
source: {kind: simulator, assets: [{id: pump-1, kind: pump}]}
groups: [{name: pumps, assets: [pump-1], model: {bundle: bundle}}]
sinks: [{kind: console}]
"""


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    (tmp_path / "plant.yaml").write_text(PLANT)
    monkeypatch.chdir(tmp_path)

    def called(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["anchormoe-agent", "tail", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        return int(left.value.code or 0), capsys.readouterr().err

    return called


def test_a_plant_without_kafka_has_nothing_to_show(call: Call) -> None:
    assert call() == (2, "error: plant.yaml: sinks: none is of kind kafka, so there is no topic to read\n")


@pytest.mark.parametrize("option", ["--since", "--for"])
def test_a_time_that_cannot_be_read_is_refused_by_the_name_of_its_option(call: Call, option: str) -> None:
    code, said = call(option, "yesterday")
    assert code == 2
    assert said.startswith(f"error: {option}: 'yesterday' has no number with a unit")


def test_a_beginning_is_a_time_with_or_without_a_zone_or_a_while_ago() -> None:
    assert _begin(None) is None
    assert _begin("2026-01-02T03:04:05") == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert _begin("2026-01-02T03:04:05+01:00") == datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1)))
    ago = datetime.now(tz=UTC) - timedelta(minutes=10)
    assert abs((_begin("10m") or ago) - ago) < timedelta(seconds=5)


def test_every_kind_of_event_can_be_told_also_one_that_came_later() -> None:
    headlines = set()
    for message in samples().events:
        event = parse_event(Record(0, 0, None, message.value, message.headers), Partition("t", 0))
        headlines.add(next(iter(_told(event))).split("Z  ")[1].split("  ")[0])
    assert {
        "pump-1: channel q lost",
        "pump-1: channel q back",
        "pump-1: data back after a gap of 26.6667 s",
        "pumps: model eeeeeeeeeeee refused: damaged",
    } <= headlines
    later = [(name, b"anchormoe.later" if name == "ce_type" else value) for name, value in message.headers]
    event = parse_event(Record(0, 0, None, message.value, later), Partition("t", 0))
    assert next(iter(_told(event))).endswith("Z  pumps: later")
