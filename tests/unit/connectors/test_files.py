"""Files as a source: the contract, and what is special about lines, headers and positions on disk."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import orjson
import pyarrow as arrow
import pytest
from pyarrow import parquet

from connectors.decoding import Decoder
from connectors.errors import ConnectorError
from connectors.files import FileFormat, FileSource, find_files
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import Partition, Position, RecordLike
from tests.contracts.source import SourceContract, Watcher, drain

T0 = 1_700_000_000_000
FIRST = Partition("files", 0)


def jsonl(path: Path, rows: int) -> Path:
    path.write_bytes(b"".join(orjson.dumps({"ts": T0 + i, "asset": path.stem, "flow": i}) + b"\n" for i in range(rows)))
    return path


class FileWorld:
    def __init__(self, directory: Path, suffix: str) -> None:
        self._format = FileFormat("csv" if suffix == "csv" else "jsonl")
        self._positions = directory / "positions.json"
        self._paths = [directory / f"{name}.{suffix}" for name in ("a", "b")]
        for path in self._paths:
            jsonl(path, 25) if suffix == "jsonl" else self._csv(path)

    @staticmethod
    def _csv(path: Path) -> None:
        path.write_text("ts,asset,flow\n" + "".join(f"{T0 + i},{path.stem},{i}.5\n" for i in range(25)))

    async def open(self) -> FileSource:
        return FileSource(self._paths, self._format, positions=self._positions)


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
class TestFileSource(SourceContract):
    @pytest.fixture
    def world(self, tmp_path: Path, suffix: str) -> FileWorld:
        return FileWorld(tmp_path, suffix)


async def read(
    paths: list[Path], format: FileFormat, *, single_partition: bool = False
) -> dict[Partition, list[RecordLike]]:
    source = FileSource(paths, format, single_partition=single_partition)
    await source.start(Watcher())
    return await drain(source)


async def test_a_json_line_is_a_record_with_key_and_time(tmp_path: Path) -> None:
    [record] = (await read([jsonl(tmp_path / "pump.jsonl", 1)], FileFormat()))[FIRST]
    assert (record.offset, record.timestamp, record.key) == (0, T0, b"pump")
    assert record.value == b'{"ts":1700000000000,"asset":"pump","flow":0}'


async def test_bad_lines_become_records_and_blank_ones_are_only_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"ts": 5}\n\n{broken\n[1]\n{"ts": "x"}')
    records = (await read([path], FileFormat()))[FIRST]
    assert [(r.offset, r.timestamp, r.key, r.value) for r in records] == [
        (0, 5, None, b'{"ts": 5}'),
        (2, -1, None, b"{broken"),
        (3, -1, None, b"[1]"),
        (4, -1, None, b'{"ts": "x"}'),
    ]


async def test_trailing_blank_lines_do_not_keep_a_source_alive(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"ts": 5}\n\n\n')
    source = FileSource([path], FileFormat())
    await source.start(Watcher())
    await drain(source)
    assert source.exhausted


async def test_several_files_can_be_one_partition(tmp_path: Path) -> None:
    seen = await read(
        [jsonl(tmp_path / "a.jsonl", 3), jsonl(tmp_path / "b.jsonl", 2)], FileFormat(), single_partition=True
    )
    assert [(record.offset, record.key) for record in seen[FIRST]] == [
        (0, b"a"),
        (1, b"a"),
        (2, b"a"),
        (3, b"b"),
        (4, b"b"),
    ]


async def test_a_csv_row_becomes_a_wide_record_that_the_decoder_reads(tmp_path: Path) -> None:
    path = tmp_path / "rig.csv"
    path.write_text('\ufeffdatetime;flow;"p";note\n2023-11-14 22:13:20;1.5;;ok\n2023-11-14 22:13:21;nan;2;ok\nbroken\n')
    format = FileFormat("csv", asset="rig", time_field="datetime", time_unit="iso", utc_offset_minutes=0, delimiter=";")
    source = FileSource([path], format)
    await source.start(Watcher())
    [batch] = await source.poll(max_records=9, timeout_s=0)
    assert [record.timestamp for record in batch.records] == [T0, T0 + 1000, -1]
    group = GroupLayout("rigs", (ChannelField("flow", "flow"), ChannelField("pressure", "p")), ("rig",))
    wide = RecordFormat(time_field="datetime", time_unit="iso", utc_offset_minutes=0, on_unknown_channel="ignore")
    decoded = Decoder([group], wide).decode(batch)
    assert str(decoded.readings[0].values.tolist()) == "[[1.5, nan], [nan, 2.0]]"
    assert [(rejected.record, rejected.reason) for rejected in decoded.rejected] == [(2, "not_json")]


async def test_an_infinite_cell_stays_a_string_and_does_not_count_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("ts,flow\n1,inf\n2,007\n3,1e3\n")
    records = (await read([path], FileFormat("csv", asset="a")))[FIRST]
    assert [record.value for record in records] == [
        b'{"ts":1,"flow":"inf"}',
        b'{"ts":2,"flow":7}',
        b'{"ts":3,"flow":1000.0}',
    ]


async def test_positions_of_other_files_are_refused_and_more_files_are_fine(tmp_path: Path) -> None:
    a, b, positions = jsonl(tmp_path / "a.jsonl", 3), jsonl(tmp_path / "b.jsonl", 3), tmp_path / "positions.json"
    source = FileSource([a], FileFormat(), positions=positions)
    await source.start(Watcher())
    await source.commit({FIRST: Position(2, "kept")})
    more = FileSource([a, b], FileFormat(), positions=positions)
    await more.start(Watcher())
    assert await more.committed(FIRST) == Position(2, "kept")
    with pytest.raises(ConnectorError, match=r"belong to a\.jsonl"):
        await FileSource([b, a], FileFormat(), positions=positions).start(Watcher())


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"log": ["a.jsonl"], "positions": [[1]]}'])
async def test_a_damaged_positions_file_is_named(tmp_path: Path, content: bytes) -> None:
    positions = tmp_path / "positions.json"
    positions.write_bytes(content)
    with pytest.raises(ConnectorError, match=r"positions\.json"):
        await FileSource([jsonl(tmp_path / "a.jsonl", 1)], FileFormat(), positions=positions).start(Watcher())


async def test_a_missing_file_is_named_at_start(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match=r"nowhere\.jsonl"):
        await FileSource([tmp_path / "nowhere.jsonl"], FileFormat()).start(Watcher())
    with pytest.raises(ConnectorError, match="no file"):
        await FileSource([], FileFormat()).start(Watcher())


def test_a_directory_stands_for_its_recordings_by_name(tmp_path: Path) -> None:
    for name in ("b.csv", "a.jsonl", "notes.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in find_files(tmp_path)] == ["a.jsonl", "b.csv"]
    assert find_files(tmp_path / "b.csv") == (tmp_path / "b.csv",)


@pytest.mark.parametrize("separator", [";", "\t", "|", ","])
async def test_the_separator_of_a_csv_file_is_the_one_in_its_header(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "rig.csv"
    rows = [["time", "flow, L/min" if separator == "|" else "flow", "level"], ["1", "2.5", "3"]]
    path.write_text("\ufeff" + "\n".join(separator.join(row) for row in rows) + "\n", encoding="utf-8")
    delimiter = "|" if separator == "|" else ","  # what is stated counts, wherever it occurs
    [record] = (await read([path], FileFormat("auto", asset="rig", delimiter=delimiter)))[FIRST]
    assert list(orjson.loads(record.value or b"").values()) == [1, 2.5, 3]


async def test_a_csv_file_of_one_column_keeps_the_separator_that_is_stated(tmp_path: Path) -> None:
    path = tmp_path / "rig.csv"
    path.write_text("time\n1\n")
    [record] = (await read([path], FileFormat("csv", asset="rig")))[FIRST]
    assert orjson.loads(record.value or b"") == {"time": 1}


async def test_a_csv_row_that_cannot_be_split_becomes_a_record_as_it_is(tmp_path: Path) -> None:
    path, huge = tmp_path / "x.csv", b"9" * 200_000
    path.write_bytes(b"ts,asset,flow\n5,p,1\n6,p," + huge + b"\n7,p,\xff\n8,p,2\n")
    records = (await read([path], FileFormat("csv")))[FIRST]
    assert [record.value for record in records][1:3] == [b"6,p," + huge, b"7,p,\xff"]
    assert [record.timestamp for record in records] == [5, -1, -1, 8]


async def test_a_csv_header_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"ts,asset,fl\xffow\n5,p,1\n")
    with pytest.raises(ConnectorError, match=r"x\.csv:1: the header"):
        await read([path], FileFormat("csv"))


async def test_parquet_columns_of_any_type_become_json(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    columns = {"ts": [5], "asset": ["p"], "flow": [Decimal("1.5")], "raw": [b"\xff"], "day": [date(2026, 1, 2)]}
    parquet.write_table(arrow.table(columns), path)
    [record] = (await read([path], FileFormat("parquet")))[FIRST]
    assert orjson.loads(record.value or b"")["flow"] == 1.5
    assert orjson.loads(record.value or b"")["day"] == "2026-01-02"


async def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    parquet.write_table(arrow.table({"ts": range(5_000), "asset": ["p"] * 5_000, "flow": range(5_000)}), path)
    content = bytearray(path.read_bytes())
    content[8:400] = b"\xff" * 392
    path.write_bytes(content)
    with pytest.raises(ConnectorError, match=r"cannot read .*x\.parquet"):
        await read([path], FileFormat("parquet"))


async def test_parquet_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    damaged = arrow.array([b"\xff"]).view(arrow.string())
    parquet.write_table(arrow.table({"ts": [5], "asset": damaged}), path)
    with pytest.raises(ConnectorError, match="column asset"):
        await read([path], FileFormat("parquet"))
