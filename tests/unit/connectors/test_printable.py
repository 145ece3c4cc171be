"""Text from outside on terminals and in log lines."""

import json

import pytest

from connectors.errors import list_names
from connectors.printable import printable, printable_json

HOSTILE = "a\x1b[2J\x9b31m\x7f\r\n\u2028\u202eb\u200b\ud800ü€😀"


def test_what_is_printable_stays_as_it_is() -> None:
    assert printable("Pumpe 1: flow → 3 °C, 😀") == "Pumpe 1: flow → 3 °C, 😀"


def test_control_characters_line_breaks_and_text_direction_are_escaped() -> None:
    assert printable(HOSTILE) == r"a\x1b[2J\x9b31m\x7f\r\n\u2028\u202eb\u200b\ud800ü€😀"
    assert printable("one\ntwo\x1b", keep="\n") == "one\ntwo\\x1b"


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_text_stays_the_same_document(indent: int | None) -> None:
    document = {"detail": HOSTILE, HOSTILE: [1, "\U000e0001"]}
    text = printable_json(json.dumps(document, indent=indent, ensure_ascii=False))
    assert json.loads(text) == document
    assert text.replace("\n", "").isprintable()


def test_names_in_messages_are_escaped() -> None:
    assert list_names(["b", "\x1b[2J"]) == "\\x1b[2J, b"
