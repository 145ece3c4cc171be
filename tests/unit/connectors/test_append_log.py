"""A file of lines that is read whole and then followed."""

from pathlib import Path

import pytest

from connectors.append_log import FileAppendLog, MemoryAppendLog
from connectors.errors import ConnectorError
from connectors.records import Partition


async def test_everything_is_read_once_and_then_what_is_new(tmp_path: Path) -> None:
    journal, writer = FileAppendLog(tmp_path / "deep" / "lines"), FileAppendLog(tmp_path / "deep" / "lines")
    assert await journal.read() == []
    await writer.append(b"k", b"one")
    await writer.append(b"k", b"two")
    assert [(entry.partition, entry.offset, entry.value) for entry in await journal.read()] == [
        (Partition("lines", 0), 0, b"one"),
        (Partition("lines", 0), 1, b"two"),
    ]
    assert await journal.read() == []
    await writer.append(b"k", b"three")
    assert [(entry.offset, entry.value) for entry in await journal.read()] == [(2, b"three")]


async def test_a_line_that_is_still_being_written_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    journal = FileAppendLog(path)
    path.write_bytes(b"one\ntw")
    assert [entry.value for entry in await journal.read()] == [b"one"]
    path.write_bytes(b"one\ntwo\n")
    assert [entry.value for entry in await journal.read()] == [b"two"]


async def test_empty_lines_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"\none\n\n")
    assert [(entry.offset, entry.value) for entry in await FileAppendLog(tmp_path / "lines").read()] == [(1, b"one")]


async def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="cannot read"):
        await FileAppendLog(tmp_path).read()
    with pytest.raises(ConnectorError, match="cannot write"):
        await FileAppendLog(tmp_path).append(b"k", b"v")


async def test_one_in_memory_shows_what_its_owner_appends() -> None:
    values = [b"one"]
    journal = MemoryAppendLog(values)
    assert [entry.value for entry in await journal.read()] == [b"one"]
    await journal.append(b"k", b"two")
    assert [(entry.offset, entry.value) for entry in await journal.read()] == [(1, b"two")]


async def test_a_line_that_a_crash_cut_off_does_not_swallow_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntw")
    await FileAppendLog(path).append(b"k", b"three")
    assert [entry.value for entry in await FileAppendLog(path).read()] == [b"one", b"tw", b"three"]


async def test_a_file_that_was_replaced_by_a_shorter_one_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\nthree\n")
    journal = FileAppendLog(path)
    assert len(await journal.read()) == 3
    path.write_bytes(b"other\n")
    assert [(entry.offset, entry.value) for entry in await journal.read()] == [(0, b"other")]


async def test_the_file_is_not_for_everybody(tmp_path: Path) -> None:
    await FileAppendLog(tmp_path / "new" / "lines").append(b"k", b"one")
    assert (tmp_path / "new" / "lines").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o750
