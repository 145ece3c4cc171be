"""The JSONL sink keeps the contract, rotates, and never leaves half a line, also beside another agent's."""

import fcntl
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.base import Sink
from connectors.errors import ConnectorError, RecordError
from connectors.files.rows import FileFormat, to_log_line
from connectors.jsonl import JsonlSink, UnreadableLine, from_line, read_messages, read_stream, scan_stream, to_line
from connectors.records import EVENTS, Message, Record
from tests.contracts.sink import SinkContract, event


class JsonlWorld:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def open(self) -> Sink:
        return JsonlSink(self._directory)

    async def stored(self, stream: str) -> list[Message]:
        path = JsonlSink(self._directory).path(stream)
        return list(read_messages(path)) if path.exists() else []


class TestJsonlSink(SinkContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> JsonlWorld:
        return JsonlWorld(tmp_path / "out")


def test_a_line_is_plain_json() -> None:
    assert orjson.loads(to_line(event(7))) == {
        "stream": "events",
        "key": "pump-1",
        "headers": {"ce_id": "7", "ce_type": "state"},
        "data": {"number": 7},
    }


def test_an_edited_line_can_still_be_read() -> None:
    pretty = b'{"data": {"a": 1}, "headers": {}, "key": null, "stream": "events"}\n'
    assert from_line(pretty) == Message(EVENTS, None, b'{"a":1}')


header_name = st.text(max_size=5) | st.binary(max_size=5).map(lambda name: name.decode("utf-8", "surrogateescape"))
header = st.tuples(header_name, st.none() | st.binary(max_size=5) | st.just(b"text"))
value = (
    st.none()
    | st.binary(max_size=20)
    | st.sampled_from([b'{"a": 1.50}', b" [1]", b"null", b"{}\n", b'"\xc3\xa9"', b"1e5", b"1e999", b'"\\ud800"'])
    | st.sampled_from([1000, 1022, 1023, 1024, 1025]).map(lambda depth: b"[" * depth + b"]" * depth)
    | st.sampled_from([1021, 1022, 1023]).map(lambda depth: b'{"a":' * depth + b"1" + b"}" * depth)
)
messages: Any = st.builds(
    Message, st.text(max_size=5), st.none() | st.binary(max_size=5), value, st.lists(header, max_size=3).map(tuple)
)


@settings(deadline=None)
@given(messages)
def test_any_message_comes_back_byte_for_byte_from_one_line(message: Message) -> None:
    line = to_line(message)
    assert line.count(b"\n") == 1
    assert from_line(line) == message


def contents(directory: Path) -> dict[str, list[bytes | None]]:
    return {path.name: [message.value for message in read_messages(path)] for path in directory.glob("*.jsonl*")}


async def test_files_rotate_by_size_and_the_oldest_goes(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path, max_bytes=1, keep=2)
    await sink.start()
    for number in range(5):
        await sink.write([event(number)])
    await sink.close()
    assert contents(tmp_path) == {
        "events.jsonl": [b'{"number": 4}'],
        "events.jsonl.1": [b'{"number": 3}'],
        "events.jsonl.2": [b'{"number": 2}'],
    }


async def test_a_line_that_was_cut_off_is_removed_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(to_line(event(0)) + to_line(event(1))[:-9])
    sink = JsonlSink(tmp_path)
    await sink.start()
    await sink.write([event(2)])
    await sink.close()
    assert list(read_messages(tmp_path / "events.jsonl")) == [event(0), event(2)]


async def test_a_directory_that_cannot_be_written_is_named_at_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConnectorError, match="file/out"):
        await JsonlSink(tmp_path / "file" / "out").start()


async def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").mkdir()
    sink = JsonlSink(tmp_path)
    await sink.start()
    with pytest.raises(ConnectorError, match=r"events\.jsonl"):
        await sink.write([event(0)])


WRITER = """
import asyncio, sys
from pathlib import Path
from connectors.jsonl import JsonlSink
from connectors.records import Message

async def main(directory, name, count):
    sink = JsonlSink(Path(directory), max_bytes=2_000, keep=1_000)
    await sink.start()
    for number in range(count):
        await sink.write([Message("events", name.encode(), b'{"number": %d}' % number)])
    await sink.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def test_two_agents_share_a_directory_and_every_acknowledged_line_stays(tmp_path: Path) -> None:
    """Also while files rotate, which renames what the other one has open."""
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    agents = [subprocess.Popen([*command, name, "100"]) for name in ("a", "b")]
    assert [agent.wait(timeout=60) for agent in agents] == [0, 0]
    found = [(message.key, message.value) for message in read_stream(tmp_path, EVENTS)]
    assert len(found) == 200
    for name in (b"a", b"b"):
        assert [value for key, value in found if key == name] == [b'{"number": %d}' % number for number in range(100)]
    assert len(list(tmp_path.glob("events.jsonl.*"))) > 2


async def test_a_second_start_cuts_off_nothing_that_the_first_has_written(tmp_path: Path) -> None:
    first, second = JsonlSink(tmp_path), JsonlSink(tmp_path)
    await first.start()
    await first.write([event(0)])
    await second.start()
    await second.write([event(1)])
    await first.write([event(2)])
    await second.write([event(3)])
    await first.close()
    await second.close()
    assert list(read_messages(tmp_path / "events.jsonl")) == [event(0), event(1), event(2), event(3)]


async def test_a_line_that_another_agent_could_not_finish_is_removed_by_the_next_write(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path)
    await sink.start()
    await sink.write([event(0)])
    with (tmp_path / "events.jsonl").open("ab") as other:
        other.write(to_line(event(1))[:-9])
    await sink.write([event(2)])
    await sink.close()
    assert list(read_messages(tmp_path / "events.jsonl")) == [event(0), event(2)]


async def test_a_whole_last_line_without_an_end_is_kept(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(to_line(event(0)) + to_line(event(1)).rstrip(b"\n"))
    sink = JsonlSink(tmp_path)
    await sink.start()
    await sink.write([event(2)])
    await sink.close()
    assert list(read_messages(tmp_path / "events.jsonl")) == [event(0), event(1), event(2)]


async def test_a_file_that_somebody_moved_away_is_begun_again(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path)
    await sink.start()
    await sink.write([event(0)])
    (tmp_path / "events.jsonl").rename(tmp_path / "moved")
    await sink.write([event(1)])
    await sink.close()
    assert list(read_messages(tmp_path / "events.jsonl")) == [event(1)]
    assert list(read_messages(tmp_path / "moved")) == [event(0)]


async def test_a_lock_that_is_never_released_ends_the_write_in_time(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path, timeout_s=0.2)
    await sink.start()
    with (tmp_path / ".lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ConnectorError, match=str(tmp_path)):
            await sink.write([event(0)])
    await sink.write([event(1)])
    await sink.close()


def modes(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}


@pytest.mark.parametrize(("mode", "directory"), [(0o640, 0o750), (0o600, 0o700), (0o644, 0o755)])
async def test_files_and_directories_are_readable_as_the_setting_says(
    tmp_path: Path, mode: int, directory: int
) -> None:
    sink = JsonlSink(tmp_path / "new" / "out", max_bytes=1, file_mode=mode)
    await sink.start()
    await sink.write([event(0)])
    await sink.write([event(1)])
    await sink.close()
    assert modes(tmp_path / "new" / "out") == {".lock": mode, "events.jsonl": mode, "events.jsonl.1": mode}
    for path in (tmp_path / "new", tmp_path / "new" / "out"):
        assert path.stat().st_mode & 0o777 == directory


async def test_files_of_an_earlier_version_are_closed_to_others_at_the_start(tmp_path: Path) -> None:
    for name in ("events.jsonl", "events.jsonl.1", "mine.jsonl"):
        (tmp_path / name).write_bytes(to_line(event(0)))
        (tmp_path / name).chmod(0o644)
    sink = JsonlSink(tmp_path)
    await sink.start()
    await sink.close()
    assert modes(tmp_path) == {"events.jsonl": 0o640, "events.jsonl.1": 0o640, "mine.jsonl": 0o644, ".lock": 0o640}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"stream":"events"}',
        b'{"stream":7,"key":null,"headers":{},"data":1}',
        b'{"stream":"events","key":7,"headers":{},"data":1}',
        b'{"stream":"events","key":null,"headers":7,"data":1}',
        b'{"stream":"events","key":null,"headers":{"a":7},"data":1}',
        b'{"stream":"events","key":null,"headers":[7],"data":1}',
        b'{"stream":"events","key":null,"headers":[{"name":null,"value":null}],"data":1}',
        b'{"stream":"events","key":null,"headers":{},"data_base64":7}',
        b'{"stream":"events","key":null,"headers":{},"data_base64":"%"}',
        b'{"stream":"events","key":null,"headers":{}}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_line_that_is_no_message_is_named_and_the_others_are_read(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(to_line(event(0)) + line + b"\n" + to_line(event(1)))
    with pytest.raises(RecordError):
        from_line(line)
    with pytest.raises(ConnectorError, match=r"events\.jsonl:2: "):
        list(read_stream(tmp_path, EVENTS))
    first, unreadable, last = scan_stream(tmp_path, EVENTS)
    assert (first, last) == (event(0), event(1))
    assert isinstance(unreadable, UnreadableLine)
    assert (unreadable.number, unreadable.line) == (2, line + b"\n")


@settings(deadline=None)
@given(messages, st.data())
def test_a_damaged_line_is_a_message_or_an_error_of_its_own(message: Message, data: st.DataObject) -> None:
    line = bytearray(to_line(message))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(line) - 1))
        line[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        line = line or bytearray(b" ")
    with suppress(RecordError):
        assert isinstance(from_line(bytes(line)), Message)
    assert FileFormat("log").record(3, bytes(line), ()).offset == 3


@settings(deadline=None)
@given(messages)
def test_a_logged_record_comes_back_whatever_its_headers_are(message: Message) -> None:
    record = Record(5, 1_700_000_000_000, message.key, message.value, message.headers)
    assert FileFormat("log").record(5, to_log_line(record).rstrip(b"\n"), ()) == record


async def test_a_reader_is_not_confused_by_a_rotation_while_it_reads(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path, max_bytes=1, keep=9)
    await sink.start()
    for number in range(3):
        await sink.write([event(number)])
    reader = read_stream(tmp_path, EVENTS)
    assert next(reader) == event(0)
    await sink.write([event(3)])
    await sink.close()
    assert list(reader) == [event(1), event(2)]


async def test_a_file_system_that_does_not_answer_ends_the_write_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write hangs in its thread; nobody waits for it, neither the sink nor the end of the process."""
    sink = JsonlSink(tmp_path, timeout_s=0.2)
    await sink.start()
    reading, writing = os.pipe()
    monkeypatch.setattr(os, "fsync", lambda descriptor: os.read(reading, 1))
    with pytest.raises(ConnectorError, match="did not answer within"):
        await sink.write([event(0)])
    os.close(writing)
    os.close(reading)
