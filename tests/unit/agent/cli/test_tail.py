"""tail before it connects: its options, and the errors when it cannot start."""

from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import orjson
import pytest

from agent.cli.errors import fail
from agent.cli.main import main
from agent.cli.tail import _show, _start, _text_lines
from agent.contracts import ReceivedEvent, parse_event
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
    assert call() == (2, "error: plant.yaml: sinks: no kafka sink is configured, so there is no topic to read\n")


@pytest.mark.parametrize("option", ["--since", "--for"])
def test_a_time_that_cannot_be_read_is_refused_by_the_name_of_its_option(call: Call, option: str) -> None:
    code, said = call(option, "yesterday")
    assert code == 2
    assert said.startswith(f"error: {option}: 'yesterday' is not a number with a unit")


def test_it_starts_at_a_time_with_or_without_a_zone_a_while_ago_or_with_what_comes_next() -> None:
    assert (_start(None, False), _start(None, True)) == ("latest", "earliest")
    assert _start("2026-01-02T03:04:05", False) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    zone = timezone(timedelta(hours=1))
    assert _start("2026-01-02T03:04:05+01:00", True) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=zone)
    start, ago = _start("10m", False), datetime.now(tz=UTC) - timedelta(minutes=10)
    assert isinstance(start, datetime)
    assert abs(start - ago) < timedelta(seconds=5)


def test_every_kind_of_event_has_a_line_also_a_kind_of_a_later_version() -> None:
    headlines = set()
    for message in samples().events:
        event = parse_event(Record(0, 0, None, message.value, message.headers), Partition("t", 0))
        headlines.add(next(iter(_text_lines(event))).split("Z  ")[1].split("  ")[0])
    assert {
        "pump-1: channel q has little or no data",
        "pump-1: channel q has data again",
        "pump-1: data back after a gap of 26.6667 s",
        "pumps: model eeeeeeeeeeee not activated: damaged",
    } <= headlines
    later = [(name, b"anchormoe.later" if name == "ce_type" else value) for name, value in message.headers]
    event = parse_event(Record(0, 0, None, message.value, later), Partition("t", 0))
    assert next(iter(_text_lines(event))).endswith("Z  pumps: later")


@pytest.mark.parametrize("as_json", [False, True])
async def test_what_somebody_else_published_commands_no_terminal(
    capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    name = "pump-\x1b[2J\x9b\u202e\nforged"
    message = samples().events[0]
    renamed = [(key, b"anchormoe.later" if key == "ce_type" else value) for key, value in message.headers]
    data = orjson.loads(message.value or b"") | {"asset": name}
    headers = [(key, name.encode() if key == "ce_subject" else value) for key, value in renamed]
    event = parse_event(Record(0, 0, name.encode(), orjson.dumps(data), headers), Partition("events", 0))

    async def events() -> AsyncGenerator[ReceivedEvent, None]:
        yield event

    await _show(events(), as_json=as_json, limit_s=5)
    [line] = capsys.readouterr().out.split("\n")[:-1]
    assert "forged" in line
    assert line.isprintable()


def test_an_error_that_quotes_a_record_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fail("no key \x1b[2J\u202e\nsecond line")
    assert capsys.readouterr().err == "error: no key \\x1b[2J\\u202e\nerror: second line\n"
