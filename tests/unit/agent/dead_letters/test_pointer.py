"""Pointer letters: small whatever the record holds, and replayed from the log while it has the record."""

import pytest

from agent.dead_letters.letter import MAX_TEXT_BYTES, dead_letter
from agent.dead_letters.pointer import pointer_letter, restore_record
from agent.dead_letters.replay import replay_letters
from agent.dead_letters.stored import LetterPosition, ReplayFilter, StoredDeadLetter
from agent.runtime.oversized import TOO_LARGE, shrink_message
from connectors.records import DEAD_LETTERS, EVENTS, STATES, Message, Partition, Record, RecordLike
from tests.support.plant import decoder
from tests.unit.agent.dead_letters.test_replay import GOOD, Archive, Producer

PLACE = Partition("readings", 3)


def letter(record: Record, **why: str) -> Message:
    return dead_letter(record, PLACE, **({"reason": "not_json", "detail": "why"} | why)).message


def stored(message: Message) -> StoredDeadLetter:
    return StoredDeadLetter.of(LetterPosition(0, 0), message.key, message.value, message.headers)


def size(message: Message) -> int:
    headers = sum(len(name.encode()) + len(text) for name, text in message.headers)
    return len(message.key or b"") + len(message.value or b"") + headers


@pytest.mark.parametrize("character", ["x", "ü", "€", "😀", "\ud800", "\x1b"])
def test_every_text_is_cut_to_a_kilobyte_between_two_characters(character: str) -> None:
    made = letter(Record(7, 1000, b"k", b"{"), detail=character * 5000, field=character * 5000)
    texts = dict(made.headers)
    for name in ("dl_detail", "dl_field"):
        assert len(texts[name]) <= MAX_TEXT_BYTES
        assert texts[name].decode().endswith("…")


def test_a_short_text_is_not_cut() -> None:
    assert dict(letter(Record(7, 1000, b"k", b"{"), detail="ü" * 512).headers)["dl_detail"] == ("ü" * 512).encode()


def test_a_pointer_is_small_whatever_the_record_holds() -> None:
    headers = [(f"h{number}", b"x" * 1000) for number in range(2000)] + [("dl_detail", b"x" * 100_000), ("dl_x", b"y")]
    record = Record(7, 1000, b"k" * 500_000, b"v" * 3_000_000, tuple(headers))
    pointer = pointer_letter(letter(record))
    assert size(pointer) < 16_000
    found = stored(pointer)
    assert (found.is_pointer, found.reason, found.source, found.offset) == (True, "not_json", PLACE, 7)
    assert (found.dl_headers["size"], found.dl_headers["key_size"]) == ("3000000", "500000")
    assert found.dl_headers["dropped_headers"] == "2002"
    assert found.dl_headers["detail"] == "why"


def test_a_pointer_is_not_shrunk_again() -> None:
    pointer = shrink_message(letter(Record(7, 1000, b"k", b"v" * 99)))
    assert pointer is not None
    assert shrink_message(pointer) is None


def test_a_record_that_calls_itself_a_pointer_is_shrunk_all_the_same() -> None:
    own = (("dl_pointer", b"1"), ("dl_sha256", b"0"), ("dl_size", b"0"), ("h", b"x" * 2_000_000))
    for value in (b"v" * 2_000_000, None):
        pointer = shrink_message(letter(Record(7, 1000, b"k", value, own)))
        assert pointer is not None
        assert size(pointer) < 16_000
        assert stored(pointer).dl_headers["size"] == str(len(value or b""))
        assert shrink_message(pointer) is None
    assert not stored(letter(Record(7, 1000, b"k", b"v", own))).is_pointer


@pytest.mark.parametrize("stream", [EVENTS, STATES])
def test_an_event_or_a_state_that_cannot_be_shortened_becomes_a_pointer_letter(stream: str) -> None:
    value = b'{"asset":"pump-1","input":{"topic":"readings","partition":3,"offset":9},"more":"%s"}' % (b"x" * 20_000)
    pointer = shrink_message(Message(stream, b"pump-1", value))
    assert pointer is not None
    assert pointer.stream == DEAD_LETTERS
    found = stored(pointer)
    assert (found.reason, found.source, found.offset) == (TOO_LARGE, Partition(f"sink:{stream}", 3), 9)


@pytest.mark.parametrize("stream", [EVENTS, STATES])
def test_a_topic_that_does_not_even_take_small_messages_is_an_error_and_loses_none(stream: str) -> None:
    assert shrink_message(Message(stream, b"pump-1", b'{"asset":"pump-1"}')) is None


def test_a_pointer_to_another_record_is_not_restored() -> None:
    pointer = stored(pointer_letter(letter(Record(7, 1000, b"k", b"v"))))
    assert isinstance(restore_record(pointer, Record(7, 1000, b"k", b"w")), str)
    assert isinstance(restore_record(pointer, None), str)
    restored = restore_record(pointer, Record(7, 1000, b"k", b"v", (("h", b"x"), ("dl_replayed", b"1"))))
    assert isinstance(restored, StoredDeadLetter)
    assert (restored.key, restored.value, restored.headers) == (b"k", b"v", (("h", b"x"),))


async def test_a_pointer_is_replayed_with_the_bytes_of_its_record() -> None:
    there, gone = Record(7, 1_000_000, b"pump-1", GOOD), Record(8, 1_000_000, b"pump-1", GOOD)
    archive = Archive(*(stored(pointer_letter(letter(record))) for record in (there, gone)))
    producer = Producer()

    async def fetch(partition: Partition, offset: int) -> RecordLike | None:
        assert partition == PLACE
        return there if offset == 7 else None

    summary = await replay_letters(archive, decoder(), ReplayFilter(("readings",)), producer, fetch=fetch)
    assert summary.replayable == 1
    assert [why for why in summary.skipped if "no longer" in why]
    assert len(producer.sent) == 1
