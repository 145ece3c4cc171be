"""Text from outside, made safe for terminals and log lines: nothing in it moves a cursor or forges a line. Pure."""

import json


def printable(text: str, *, keep: str = "") -> str:
    r"""Escapes what is not printable: control characters, line breaks, text direction, surrogates (`\x1b`, `\u202e`).

    `keep` are characters to leave alone, such as line breaks that we wrote ourselves.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keep else repr(each)[1:-1] for each in text)


def printable_json(document: str) -> str:
    """The same for a JSON text, which stays the same document: JSON itself leaves a terminal's control codes alone."""
    if document.isprintable():
        return document
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in document)
