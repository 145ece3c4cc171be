"""The JSONL sink keeps the contract, rotates, and never leaves half a line."""

from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.base import Sink
from connectors.errors import ConnectorError
from connectors.jsonl import JsonlSink, from_line, read_messages, to_line
from connectors.records import EVENTS, Message
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


header = st.tuples(st.text(max_size=5), st.binary(max_size=5) | st.just(b"text"))
value = (
    st.none()
    | st.binary(max_size=20)
    | st.sampled_from([b'{"a": 1.50}', b" [1]", b"null", b"{}\n", b'"\xc3\xa9"', b"1e5"])
)


@given(
    st.builds(
        Message, st.text(max_size=5), st.none() | st.binary(max_size=5), value, st.lists(header, max_size=3).map(tuple)
    )
)
def test_any_message_comes_back_byte_for_byte_from_one_line(message: Message) -> None:
    line = to_line(message)
    assert line.count(b"\n") == 1
    assert from_line(line) == message


def contents(directory: Path) -> dict[str, list[bytes | None]]:
    return {path.name: [message.value for message in read_messages(path)] for path in directory.iterdir()}


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
