"""The replay of dead letters as a service: sent in order, recorded afterwards, each once; and where they are stored."""

from collections.abc import AsyncGenerator, Collection, Iterable
from pathlib import Path
from typing import Any

import pytest

from agent.dead_letters.archive import (
    DirectoryArchive,
    TopicArchive,
    count_by_reason,
    find_archive,
    find_letter,
    newest_letters,
)
from agent.dead_letters.letter import dead_letter
from agent.dead_letters.replay import replay_for_plant, replay_letters
from agent.dead_letters.stored import LetterPosition, ReplayFilter, StoredDeadLetter
from agent.errors import SettingsError
from agent.settings import load_settings
from agent.terminal.dead_letters import counts_text, letter_lines
from connectors.errors import ConnectorError
from connectors.jsonl import JsonlSink
from connectors.records import Partition, Record, RecordLike
from tests.support.offline_plant import load_offline_plant, write_plant
from tests.support.plant import decoder

GOOD, BROKEN = b'{"ts":1000,"flow":1,"pressure":2}', b'{"ts":1000,"flo'
WANTED = ReplayFilter(("readings",))


def stored(line: int, *, offset: int, value: bytes = GOOD, partition: int = 3) -> StoredDeadLetter:
    record = Record(offset, 1_000_000, b"pump-1", value)
    message = dead_letter(record, Partition("readings", partition), reason="not_json", detail="why").message
    return StoredDeadLetter.of(LetterPosition(0, line), message.key, message.value, message.headers)


class Replayed:
    def __init__(self) -> None:
        self.origins: set[bytes] = set()

    async def read(self) -> set[bytes]:
        return set(self.origins)

    async def add(self, origins: Collection[bytes]) -> None:
        self.origins.update(origins)


class Archive:
    def __init__(self, *letters: StoredDeadLetter) -> None:
        self._letters = letters
        self.replayed = Replayed()

    async def read(self) -> AsyncGenerator[StoredDeadLetter, None]:
        for letter in self._letters:
            yield letter


class Producer:
    def __init__(self, *, fails: bool = False) -> None:
        self.sent: list[tuple[str, int | None, int]] = []
        self.open, self._fails = False, fails

    async def start(self) -> None:
        self.open = True

    async def write(self, topic: str, records: Iterable[RecordLike], *, partition: int | None = None) -> None:
        if self._fails:
            raise ConnectorError("gone")
        self.sent.append((topic, partition, len(list(records))))

    async def close(self) -> None:
        self.open = False


async def test_letters_are_sent_in_order_and_recorded() -> None:
    archive = Archive(stored(0, offset=1), stored(1, offset=2), stored(2, offset=9, partition=0))
    producer = Producer()
    summary = await replay_letters(archive, decoder(), WANTED, producer)
    assert (summary.replayable, summary.skipped) == (3, {})
    assert producer.sent == [("readings", 3, 2), ("readings", 0, 1)]
    assert archive.replayed.origins == {b"readings/3/1", b"readings/3/2", b"readings/0/9"}
    assert not producer.open


async def test_a_second_replay_sends_nothing() -> None:
    archive, producer = Archive(stored(0, offset=1)), Producer()
    await replay_letters(archive, decoder(), WANTED, Producer())
    summary = await replay_letters(archive, decoder(), WANTED, producer)
    assert (summary.replayable, producer.sent) == (0, [])
    assert summary.skipped == {"already replayed; --force replays it again": 1}


async def test_a_letter_that_was_written_twice_is_replayed_once() -> None:
    archive, producer = Archive(stored(0, offset=1), stored(1, offset=1), stored(2, offset=4, value=BROKEN)), Producer()
    summary = await replay_letters(archive, decoder(), WANTED, producer)
    assert producer.sent == [("readings", 3, 1)]
    assert summary.skipped["duplicate of a letter in this replay"] == 1
    assert sum(summary.skipped.values()) == 2


async def test_a_dry_run_sends_and_records_nothing() -> None:
    archive = Archive(stored(0, offset=1))
    assert (await replay_letters(archive, decoder(), WANTED, None)).replayable == 1
    assert archive.replayed.origins == set()


async def test_what_was_not_sent_is_not_recorded() -> None:
    archive, producer = Archive(stored(0, offset=1)), Producer(fails=True)
    with pytest.raises(ConnectorError):
        await replay_letters(archive, decoder(), WANTED, producer)
    assert archive.replayed.origins == set()
    assert not producer.open


async def test_a_plant_without_kafka_has_no_topic_to_replay_to(tmp_path: Path) -> None:
    plant = load_offline_plant(write_plant(tmp_path))
    with pytest.raises(SettingsError, match=r"source\.kind: dead letters can be replayed to kafka only, not to"):
        await replay_for_plant(plant, Archive(), WANTED, dry_run=True)


async def test_letters_in_files_are_numbered_by_line_and_can_be_found(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path)
    await sink.start()
    home = Partition("readings", 3)
    letters = [
        dead_letter(Record(at, 1000 + at, b"pump-1", BROKEN), home, reason=reason, detail="why").message
        for at, reason in enumerate(["late", "not_json", "late", "late"])
    ]
    await sink.write(letters)
    await sink.close()
    archive = DirectoryArchive(tmp_path)
    counts = await count_by_reason(archive)
    assert {reason: count.count for reason, count in counts.items()} == {"late": 3, "not_json": 1}
    newest = await newest_letters(archive, "late", 2)
    assert [letter.position for letter in newest] == [LetterPosition(0, 2), LetterPosition(0, 3)]
    found = await find_letter(archive, LetterPosition(0, 1))
    assert found is not None
    assert found.reason == "not_json"
    assert await find_letter(archive, LetterPosition(0, 9)) is None
    assert await count_by_reason(DirectoryArchive(tmp_path / "nowhere")) == {}


@pytest.mark.parametrize(
    ("sinks", "kind"),
    [
        ([{"kind": "console"}], type(None)),
        ([{"kind": "jsonl", "directory": "out"}], DirectoryArchive),
        (
            [
                {"kind": "jsonl", "directory": "out"},
                {"kind": "kafka", "bootstrap": "k:1", "topics": {"events": "e", "states": "s", "dead_letters": "d"}},
            ],
            TopicArchive,
        ),
    ],
)
def test_letters_are_in_the_kafka_sink_or_else_in_the_jsonl_sink(tmp_path: Path, sinks: object, kind: type) -> None:
    assert type(find_archive(load_settings(write_plant(tmp_path, sinks=sinks), {}))) is kind


async def test_letters_with_null_headers_and_deep_values_and_damaged_lines_are_all_listed(tmp_path: Path) -> None:
    nothing: Any = None
    deep = b"[" * 1023 + b"]" * 1023
    records = [Record(1, 5, b"p", BROKEN, (("trace", nothing),)), Record(2, 5, b"p", deep), Record(3, 5, b"p", BROKEN)]
    sink = JsonlSink(tmp_path)
    await sink.start()
    for record in records:
        await sink.write([dead_letter(record, Partition("readings", 0), reason="not_json", detail="why").message])
        with (tmp_path / "dead-letters.jsonl").open("ab") as file:
            file.write(b'{"edited by hand\n')
    await sink.close()
    archive = DirectoryArchive(tmp_path)
    counts = await count_by_reason(archive)
    assert {reason: each.count for reason, each in counts.items()} == {"not_json": 3, "unreadable_line": 3}
    assert counts_text(counts).count("unreadable_line") == 1
    letters = [letter async for letter in archive.read()]
    assert [letter.value for letter in letters[::2]] == [BROKEN, deep, BROKEN]
    assert dict(letters[0].headers) == {"trace": nothing}
    assert all(letter_lines(letter) for letter in letters)
    summary = await replay_letters(archive, decoder(), ReplayFilter(("readings",)), Producer())
    assert summary.skipped["not a dead letter of this agent"] == 3
