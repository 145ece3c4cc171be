"""The replay of files: every kind of file gives the same events, ranges are exact, mistakes get one line."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent import app
from agent.cli.inputs import parse_log_range
from agent.cli.main import main
from agent.endpoints import make_source
from agent.offline.replay import ReplayResult, ReplaySink, replay, warm_up_ms
from connectors.files.rows import FileFormat, to_log_line
from connectors.files.source import FileSource
from connectors.jsonl import stream_files
from connectors.log_range import LogPosition, LogRange
from connectors.records import EVENTS, Message, Record
from tests.support.offline_plant import START_MS, load_offline_plant, load_rule, records, write_plant

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Runs a command line in this process with a rule instead of a model."""
    monkeypatch.setattr(app, "model_loader", lambda settings: load_rule)
    monkeypatch.setattr("agent.logs.set_up_logs", lambda *_, **__: None)  # would take pytest's own handlers away

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["anchormoe-agent", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as left:
            code = int(left.code or 0)
        return code, *capsys.readouterr()

    with capture_logs():
        yield call


def good() -> list[Record]:
    return [record for record in records(60) if (record.value or b"").endswith(b"}")]


def rows() -> list[dict[str, Any]]:
    return [{"asset": (record.key or b"").decode()} | json.loads(record.value or b"") for record in good()]


def replayed(plant: Path, path: Path, span: LogRange | None = None) -> ReplayResult:
    async def run() -> ReplayResult:
        source = FileSource([path], FileFormat("auto"), single_partition=True, log_range=span)
        return await replay(
            load_offline_plant(plant), source, stop=asyncio.Event(), report=lambda *_: None, load_model=load_rule
        )

    with capture_logs():
        return asyncio.run(run())


def written(directory: Path, kind: str) -> Path:
    """The same records as JSON lines, CSV, Parquet or a log."""
    path = directory / f"records.{'jsonl' if kind == 'log' else kind}"
    if kind == "log":
        path.write_bytes(b"".join(map(to_log_line, good())))
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    elif kind == "csv":
        names = list(rows()[0])
        path.write_text("\n".join([",".join(names), *(",".join(str(row[name]) for name in names) for row in rows())]))
    else:
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.Table.from_pylist(rows())
        times = table.column("ts").cast(pyarrow.timestamp("ms", "UTC"))
        parquet.write_table(table.set_column(table.schema.get_field_index("ts"), "ts", times), path)
    return path


def test_every_kind_of_file_gives_the_same_events(tmp_path: Path) -> None:
    plant = write_plant(tmp_path)
    lines = {}
    for kind in ("log", "jsonl", "csv", "parquet"):
        found = replayed(plant, written(tmp_path, kind))
        assert (found.complete, found.counters.records, dict(found.counters.dead_letters)) == (True, len(good()), {})
        lines[kind] = list(found.events.lines())
    assert len(lines["log"]) > 10
    assert lines["log"] == lines["jsonl"] == lines["csv"] == lines["parquet"]


def test_a_log_keeps_what_json_lines_cannot() -> None:
    record = Record(3, 17, b"\xff", b'{"cut o', (("h", b"\x00\xfe"), ("h", b"2")))
    line = to_log_line(record)
    again = FileFormat("auto").for_file(Path("x.jsonl"), line[:64]).record(3, line.rstrip(b"\n"), ())
    assert again == record


def test_a_span_is_cut_by_offset_and_by_time(tmp_path: Path) -> None:
    plant, path = write_plant(tmp_path), written(tmp_path, "log")
    by_offset = replayed(plant, path, LogRange(LogPosition(offset=10), LogPosition(offset=50)))
    assert by_offset.counters.records == 40
    by_time = replayed(
        plant, path, LogRange(LogPosition(time_ms=START_MS + 10_000), LogPosition(time_ms=START_MS + 20_000))
    )
    assert by_time.counters.records == sum(10_000 <= each.timestamp - START_MS < 20_000 for each in good())


@pytest.mark.parametrize(
    "first",
    [LogPosition(offset=1), LogPosition(offset=61), LogPosition(offset=100), LogPosition(time_ms=START_MS + 47_500)],
)
def test_a_span_begins_with_full_windows_and_says_only_what_its_own_records_made(
    tmp_path: Path, first: LogPosition
) -> None:
    plant, path = write_plant(tmp_path, emission={"policy": "all"}), written(tmp_path, "log")
    warm_up = warm_up_ms(load_offline_plant(plant).groups)
    assert warm_up == (8 * 4 + 2 + 1) * 1000
    whole, cut = replayed(plant, path), replayed(plant, path, LogRange(first, None, warm_up))
    start = next(at for at, record in enumerate(good()) if first.reached_by(replace(record, offset=at)))
    made = [line for line in whole.events.lines() if json.loads(line)["data"]["input"]["offset"] >= start]
    assert list(cut.events.lines()) == made
    assert cut.counters.events["state"] == len(made)
    expected = [record for record in good()[:start] if record.timestamp >= good()[start].timestamp - warm_up]
    assert (cut.records_before, cut.counters.records) == (len(expected), len(expected) + len(good()) - start)


def test_a_span_behind_the_end_is_empty(tmp_path: Path) -> None:
    plant, path = write_plant(tmp_path), written(tmp_path, "log")
    found = replayed(plant, path, LogRange(LogPosition(offset=10_000), None, 1000))
    assert (found.counters.records, found.records_before, len(found.events)) == (0, 0, 0)


def test_dead_letters_before_the_begin_are_not_said_again(tmp_path: Path) -> None:
    plant, path = write_plant(tmp_path), tmp_path / "all.jsonl"
    path.write_bytes(b"".join(map(to_log_line, records(60))))
    found = replayed(plant, path, LogRange(LogPosition(offset=60), None, 30_000))
    broken = [record.offset for record in records(60) if not (record.value or b"").endswith(b"}")]
    assert found.counters.dead_letters == {"not_json": sum(offset >= 60 for offset in broken)}
    assert len(found.letters) == found.counters.dead_letters["not_json"]


def test_a_file_name_can_be_the_asset(tmp_path: Path) -> None:
    for name in ("pump-a", "pump-b"):
        lines = [f"{START_MS + second * 1000},{second % 3},1" for second in range(20)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["ts,flow,pressure", *lines]))
    source = {"kind": "file", "paths": ["pump-*.csv"], "asset": "{file}"}
    plant = load_offline_plant(write_plant(tmp_path, source=source, sinks=[{"kind": "console"}]))

    async def run() -> ReplayResult:
        own: Any = make_source(plant.settings)
        return await replay(plant, own, stop=asyncio.Event(), report=lambda *_: None, load_model=load_rule)

    with capture_logs():
        found = asyncio.run(run())
    assert {name.asset for name in found.events.names()} == {"pump-a", "pump-b"}
    assert found.counters.records == 40


def test_a_file_that_names_its_assets_twice_is_refused(tmp_path: Path, command: Command) -> None:
    source = {"kind": "file", "paths": ["*.yaml"], "format": "csv", "asset": "pump-1"}
    plant = write_plant(tmp_path, source=source, records={"asset_field": "asset"})
    code, _, said = command("validate", plant)
    assert code == 2
    assert "source.asset: has no effect: records.asset_field, asset, names the assets" in said


def test_the_command_writes_scores_and_compares(tmp_path: Path, command: Command) -> None:
    plant, path = write_plant(tmp_path), written(tmp_path, "log")
    truth = tmp_path / "truth.jsonl"
    edges = [f"2025-10-09T08:53:{second}Z" for second in (20, 30, 40)]
    low = {"asset": "pump-1", "state": "low", "start": edges[0], "end": edges[1], "fault": False}
    lines = [low, {"asset": "pump-1", "state": "high", "start": edges[1], "end": edges[2]}]
    truth.write_text("\n".join(map(json.dumps, lines)))
    code, said, _ = command("replay", "-c", plant, "-i", path, "--out", tmp_path / "a", "--truth", truth)
    assert code == 0
    # The record of second 8 is broken, so the window of seconds 8 to 11 holds one low value and two high ones.
    assert "faults: 1 of 1 detected, 0 missed; delay 2.0 s (median)" in said
    code, said, _ = command("replay", "-c", plant, "-i", path, "--compare", tmp_path / "a" / "events.jsonl", "--json")
    assert code == 0
    assert json.loads(said)["comparison"]["same"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-i", "nowhere.jsonl"), "--input: there is no file nowhere.jsonl; a topic is written kafka:TOPIC"),
        (("-i", "nowhere"), "--input: there is no file nowhere; a topic is written kafka:TOPIC"),
        (("-i", "kafka"), "--input kafka: the plant's source is file, not kafka; write kafka:TOPIC or a path"),
        (("-i", "kafka:t"), "--input kafka:t: the plant has neither a kafka source nor a kafka sink"),
        (("-i", "kafka:"), "--input: 'kafka:' names no topic; write `kafka` for the plant's own topic, `kafka:TOPIC`"),
        (("-i", "kafka:t", "-i", "plant.yaml"), "--input: kafka:t and plant.yaml: read either topics or files"),
        (("-i", "plant.yaml", "--compare", "e"), "--compare: there is no file e; a topic is written kafka:TOPIC"),
        (("-i", "plant.yaml", "--compare", "kafka"), "--compare kafka: the plant has no kafka sink; write kafka:TOPIC"),
        (("-i", "plant.yaml", "--from", "yesterday"), "--from: 'yesterday' is neither an offset nor a time"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_plant(tmp_path)
    code, _, said = command("replay", *arguments)
    assert code == 2
    assert said.startswith(f"error: {words}")
    assert said.count("\n") == 1


def test_positions_are_offsets_or_times() -> None:
    assert parse_log_range("17", "2026-01-01T00:00:01") == LogRange(
        LogPosition(offset=17), LogPosition(time_ms=1_767_225_601_000)
    )
    assert parse_log_range(None, None).is_whole_log


def test_rotated_files_are_read_from_the_oldest_on(tmp_path: Path) -> None:
    for name in ("events.jsonl", "events.jsonl.1", "events.jsonl.10", "events.jsonl.2"):
        (tmp_path / name).touch()
    names = [path.name for path in stream_files(tmp_path, "events")]
    assert names == ["events.jsonl.10", "events.jsonl.2", "events.jsonl.1", "events.jsonl"]


def test_a_recording_that_names_no_asset_is_told_and_can_be_given_one(tmp_path: Path, command: Command) -> None:
    kafka = {"kind": "kafka", "bootstrap": "127.0.0.1:9", "topics": ["sensors"]}
    plant = write_plant(tmp_path, source=kafka)
    lines = [f"{START_MS + second * 1000},{second % 3},1" for second in range(20)]
    (tmp_path / "pump-a.csv").write_text("\n".join(["ts,flow,pressure", *lines]))
    code, said, _ = command("replay", "-c", plant, "-i", tmp_path / "pump-a.csv")
    assert code == 0
    assert "no record could be used; the first one: the record has no key; the key must be the asset id" in said
    for name in ("pump-a", "{file}"):
        code, said, _ = command("replay", "-c", plant, "-i", tmp_path / "pump-a.csv", "--asset", name, "--json")
        assert (code, json.loads(said)["dead_letters"]) == (0, {})
        assert json.loads(said)["events"]["state"] > 0
    code, said, _ = command("replay", "-c", plant, "-i", tmp_path / "pump-a.csv", "--from", "999")
    assert (code, "there are no records to replay, or none between --from and --to" in said) == (0, True)
    code, _, said = command("replay", "-c", plant, "--asset", "pump-a")
    assert (
        code,
        said.startswith("error: --asset: is for files; the records of a topic name their assets themselves"),
    ) == (2, True)


def test_events_of_another_plant_in_the_same_place_are_not_compared(tmp_path: Path, command: Command) -> None:
    plant, path, out = write_plant(tmp_path), written(tmp_path, "log"), tmp_path / "events.jsonl"
    assert command("replay", "-c", plant, "-i", path, "--out", tmp_path)[0] == 0
    lines = out.read_bytes()
    others = lines.replace(b"/anchormoe-agent/hall", b"/anchormoe-agent/yard").replace(b'"ce_id":"', b'"ce_id":"f')
    out.write_bytes(lines + others)
    code, said, _ = command("replay", "-c", plant, "-i", path, "--compare", out, "--json")
    assert (code, json.loads(said)["comparison"]["extra"]) == (0, [])


async def test_an_event_of_another_log_is_kept() -> None:
    found = ReplayResult()
    sink = ReplaySink(found, FileSource([], FileFormat()))
    value = {"type": "model_refused", "input": {"topic": "hall-activations", "partition": 0, "offset": 3}}
    headers = {"ce_time": "2026-01-01T00:00:00Z", "ce_type": "x.model_refused", "ce_subject": "pumps", "ce_id": "1"}
    encoded = tuple((name, text.encode()) for name, text in headers.items())
    await sink.write([Message(EVENTS, b"pumps", json.dumps(value).encode(), encoded)])
    assert found.counters.events == {"model_refused": 1}
