"""Stored dead letters: which are replayed, as which record, and which are skipped."""

from pathlib import Path

import pytest

from agent.dead_letters.letter import dead_letter
from agent.dead_letters.replayed import ReplayedLettersFile
from agent.dead_letters.stored import (
    LetterPosition,
    ReasonCount,
    ReplayFilter,
    ReplayRecord,
    StoredDeadLetter,
    replay_record,
)
from agent.terminal.dead_letters import counts_text, letter_lines, readable
from connectors.records import Partition, Record
from tests.support.plant import decoder

HOME = Partition("readings", 3)
GOOD, BROKEN = b'{"ts":1000,"flow":1,"pressure":2}', b'{"ts":1000,"flo'
WANTED = ReplayFilter(("readings",))


def letter(
    value: bytes = GOOD, reason: str = "not_json", headers: tuple[tuple[str, bytes], ...] = (("own", b"1"),)
) -> StoredDeadLetter:
    message = dead_letter(
        Record(17, 1_000_000, b"pump-1", value, headers), HOME, reason=reason, detail="why", field="f"
    ).message
    return StoredDeadLetter.of(LetterPosition(0, 5), message.key, message.value, message.headers)


def test_a_letter_that_decodes_now_is_sent_back_with_its_key_headers_time_and_partition() -> None:
    sent = replay_record(letter(), decoder(), WANTED)
    assert isinstance(sent, ReplayRecord)
    assert (sent.topic, sent.partition) == ("readings", 3)
    assert (sent.record.key, sent.record.value, sent.record.timestamp) == (b"pump-1", GOOD, 1_000_000)
    assert sent.record.headers == (("own", b"1"), ("dl_replayed", b"1"))


def test_a_letter_that_is_still_broken_is_skipped_until_it_is_corrected() -> None:
    broken = letter(BROKEN)
    assert str(replay_record(broken, decoder(), WANTED)).startswith("still not_json: ")
    repaired = replay_record(broken, decoder(), ReplayFilter(("readings",), edits={LetterPosition(0, 5): GOOD}))
    assert isinstance(repaired, ReplayRecord)
    assert repaired.record.value == GOOD


def test_a_record_that_is_rejected_again_is_not_replayed_for_ever() -> None:
    first = replay_record(letter(), decoder(), WANTED)
    assert isinstance(first, ReplayRecord)
    second = letter(first.record.value or b"", headers=tuple(first.record.headers))
    assert second.times_replayed == 1
    assert str(replay_record(second, decoder(), WANTED)).startswith("already replayed")
    forced = replay_record(second, decoder(), ReplayFilter(("readings",), force=True))
    assert isinstance(forced, ReplayRecord)
    assert forced.record.headers == (("own", b"1"), ("dl_replayed", b"2"))


def test_a_letter_is_replayed_once_unless_forced() -> None:
    first = replay_record(letter(), decoder(), WANTED)
    assert isinstance(first, ReplayRecord)
    assert first.origin == b"readings/3/17"
    assert str(replay_record(letter(), decoder(), ReplayFilter(("readings",), replayed={first.origin}))).startswith(
        "already replayed"
    )
    assert isinstance(
        replay_record(letter(), decoder(), ReplayFilter(("readings",), replayed={first.origin}, force=True)),
        ReplayRecord,
    )


async def test_a_file_next_to_the_letters_remembers_what_was_replayed(tmp_path: Path) -> None:
    await ReplayedLettersFile(tmp_path).add([b"readings/3/17", b"readings/0/2"])
    await ReplayedLettersFile(tmp_path).add([b"readings/3/18"])
    assert await ReplayedLettersFile(tmp_path).read() == {b"readings/3/17", b"readings/0/2", b"readings/3/18"}


@pytest.mark.parametrize("reason", ["late", "asset_moved", "too_many_assets"])
def test_letters_that_may_be_rejected_again_are_replayed_by_name_only(reason: str) -> None:
    assert str(replay_record(letter(reason=reason), decoder(), WANTED)).startswith(f"may be {reason} again")
    assert isinstance(
        replay_record(letter(reason=reason), decoder(), ReplayFilter(("readings",), [reason])), ReplayRecord
    )


def test_a_record_that_was_in_the_wrong_partition_goes_where_its_key_belongs() -> None:
    sent = replay_record(letter(reason="asset_moved"), decoder(), ReplayFilter(("readings",), ["asset_moved"]))
    assert isinstance(sent, ReplayRecord)
    assert sent.partition is None


def test_letters_of_other_reasons_or_topics_and_foreign_messages_are_skipped() -> None:
    assert replay_record(letter(), decoder(), ReplayFilter(("readings",), ["late"])) == "another reason"
    assert "is not read by this plant" in str(replay_record(letter(), decoder(), ReplayFilter(("others",))))
    assert (
        replay_record(StoredDeadLetter.of(LetterPosition(0, 0), None, GOOD, ()), decoder(), WANTED)
        == "not a dead letter of this agent"
    )


def test_a_position_is_a_partition_and_an_offset() -> None:
    assert (LetterPosition.parse("3:17"), LetterPosition.parse("17")) == (LetterPosition(3, 17), LetterPosition(0, 17))
    assert str(LetterPosition(3, 17)) == "3:17"
    with pytest.raises(ValueError, match="x"):
        LetterPosition.parse("x")


def test_reasons_are_counted_with_their_first_and_last_time() -> None:
    count = ReasonCount()
    for each in (letter(), letter()):
        count.add(each)
    assert (count.count, count.first_ms, count.last_ms, count.fields) == (2, 1_000_000, 1_000_000, {"f"})
    assert "not_json  2      1970-01-01T00:16:40Z" in counts_text({"not_json": count})
    assert counts_text({}) == "no dead letters"


def test_control_characters_never_reach_the_terminal() -> None:
    assert readable(b"\x1b[31mred\n") == "\\x1b[31mred\\n"
    assert readable(b"\xff\x00") == "hex ff 00"
    assert readable(None) == "–"
    text = "\n".join(letter_lines(letter(BROKEN)))
    assert "0:5  not_json: why (field f)" in text
    assert "source: readings[3]@17 at 1970-01-01T00:16:40Z" in text
    assert text.endswith('value, 15 bytes:\n{"ts":1000,"flo')


def test_numbers_that_no_record_can_have_are_read_as_none() -> None:
    headers = [("dl_timestamp_ms", b"9" * 30), ("dl_partition", b"9" * 5_000), ("dl_replayed", b"\xc2\xb2")]
    letter = StoredDeadLetter.of(LetterPosition(0, 0), b"p1", b"{}", headers)
    assert (letter.time_ms, letter.source.number, letter.times_replayed) == (-1, 0, 0)
