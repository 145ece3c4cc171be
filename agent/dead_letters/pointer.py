"""Pointer letters: dead letters without the record itself, for records too large to be written again. Pure."""

from dataclasses import replace
from hashlib import sha256

from agent.dead_letters.letter import MAX_TEXT_BYTES
from agent.dead_letters.stored import PREFIX, StoredDeadLetter
from connectors.records import Message, RecordLike

_MARK = "dl_pointer"
_KEPT = frozenset(
    {
        *("dl_reason", "dl_detail", "dl_field", "dl_exception", "dl_topic", "dl_partition", "dl_offset"),
        *("dl_timestamp_ms", "dl_version", "dl_replayed", "dl_size", "dl_sha256"),
    }
)
"""A record's own headers may begin with `dl_` too, so only those that we know are kept."""


def is_pointer(message: Message) -> bool:
    """Only the last header counts: a record may bring headers of the same name, but ours follow them."""
    return bool(message.headers) and message.headers[-1][0] == _MARK


def pointer_letter(letter: Message) -> Message:
    """The letter without value and without the record's own headers; size and SHA-256 identify the record.

    At most a dozen kilobytes. The record is at dl_topic, dl_partition, dl_offset for as long as the log keeps it.
    """
    value = letter.value or b""
    kept = {name: text[:MAX_TEXT_BYTES] for name, text in letter.headers if name in _KEPT and text is not None}
    size = {"dl_size": str(len(value)).encode(), "dl_sha256": sha256(value).hexdigest().encode()}
    size["dl_dropped_headers"] = str(len(letter.headers) - len(kept)).encode()
    key = letter.key
    if key is not None and len(key) > MAX_TEXT_BYTES:
        size["dl_key_size"] = str(len(key)).encode()
        key = None
    return Message(letter.stream, key, None, (*(kept | size).items(), (_MARK, b"1")))


def restore_record(letter: StoredDeadLetter, record: RecordLike | None) -> StoredDeadLetter | str:
    """The letter with the bytes of the record it points to, or why they cannot be had."""
    if record is None:
        return f"a pointer to {letter.source}@{letter.offset}, which the log no longer holds"
    if sha256(record.value or b"").hexdigest() != letter.dl_headers.get("sha256"):
        return f"a pointer to {letter.source}@{letter.offset}, where another record is by now"
    headers = tuple((name, text) for name, text in record.headers if not name.startswith(PREFIX))
    return replace(letter, key=record.key, value=record.value, headers=headers)
