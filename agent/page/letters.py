"""Dead letters for people: the reason, the place, the first bytes as text and as digits. Pure."""

from agent.page.api import Letter
from connectors.printable import printable
from connectors.records import Message

_SHOWN_BYTES = 512


def letter_of(message: Message) -> Letter:
    """Whatever its headers and bytes are: what cannot be read is empty."""
    headers = {name: (value or b"").decode(errors="replace") for name, value in message.headers}
    value, key = message.value or b"", message.key
    return Letter.model_construct(
        reason=headers.get("dl_reason") or "unknown",
        detail=printable(headers.get("dl_detail", "")),
        field=printable(headers.get("dl_field", "")),
        topic=headers.get("dl_topic", ""),
        partition=_number(headers.get("dl_partition")) or 0,
        offset=_number(headers.get("dl_offset")) or 0,
        time_ms=_number(headers.get("dl_timestamp_ms")),
        key=None if key is None else printable(key[:_SHOWN_BYTES].decode(errors="backslashreplace")),
        text=printable(value[:_SHOWN_BYTES].decode(errors="backslashreplace")),
        hex=value[:_SHOWN_BYTES].hex(),
        bytes=len(value),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else None
