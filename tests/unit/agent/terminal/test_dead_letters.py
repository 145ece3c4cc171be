"""Dead letters as text: nothing out of a record reaches the terminal unescaped."""

import json

from agent.dead_letters.letter import dead_letter
from agent.dead_letters.pointer import pointer_letter
from agent.dead_letters.stored import LetterPosition, ReasonCount, StoredDeadLetter
from agent.terminal.dead_letters import counts_text, letter_json, letter_lines, letters_text
from connectors.printable import printable_json
from connectors.records import Message, Partition, Record

HOSTILE = "x\x1b[2J\x9b\u202e\nforged"


def stored(message: Message) -> StoredDeadLetter:
    return StoredDeadLetter.of(LetterPosition(0, 1), message.key, message.value, message.headers)


def hostile() -> Message:
    record = Record(7, 1000, HOSTILE.encode(), HOSTILE.encode(), ((HOSTILE, HOSTILE.encode()), ("dl_topic", b"\x1b")))
    made = dead_letter(record, Partition("readings", 3), reason=HOSTILE, detail=HOSTILE, field=HOSTILE).message
    return Message(made.stream, made.key, made.value, (*made.headers, ("dl_topic", HOSTILE.encode())))


def test_neither_table_nor_letter_holds_a_control_character() -> None:
    letter, count = stored(hostile()), ReasonCount()
    count.add(letter)
    for text in (counts_text({letter.reason: count}), letters_text([letter])):
        assert len(text.split("\n")) == 2
        assert text.replace("\n", "").isprintable()
    assert all(line.isprintable() for line in letter_lines(letter))


def test_json_of_a_letter_is_printable_and_the_same_document() -> None:
    document = letter_json(stored(hostile()))
    text = printable_json(json.dumps(document, indent=2, ensure_ascii=False))
    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == document


def test_a_pointer_says_where_its_record_is() -> None:
    made = dead_letter(Record(7, 1000, b"k", b"v" * 99), Partition("readings", 3), reason="not_json", detail="why")
    text = "\n".join(letter_lines(stored(pointer_letter(made.message))))
    assert "readings[3]@7" in text
    assert "99 bytes, not stored here" in text


def test_a_timestamp_that_no_calendar_has_is_shown_as_its_number() -> None:
    record = Record(7, 9_223_372_036_854_775_807, b"k", b"v")
    letter, count = (
        stored(dead_letter(record, Partition("readings", 3), reason="late", detail="why").message),
        ReasonCount(),
    )
    count.add(letter)
    texts = [letters_text([letter]), "\n".join(letter_lines(letter)), counts_text({"late": count})]
    assert all("9223372036854775807 ms" in text for text in texts)
