"""Messages that are larger than a sink's broker takes: what is published instead. Pure."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import orjson

from agent.dead_letters.letter import dead_letter_headers
from agent.dead_letters.pointer import is_pointer, pointer_letter
from connectors.records import DEAD_LETTERS, EVENTS, Message

TOO_LARGE = "too_large_to_publish"
CUT_HEADER = "anchormoe_cut"
"""Header of an event that was published without a part of it; the value names the part."""
_SMALL_BYTES = 16 * 1024


def shrink_message(message: Message) -> Message | None:
    """A smaller message for the same fact, or None where there is none.

    A dead letter becomes a pointer letter. An event loses its evidence: the state matters more than its evidence, and
    an alarm must not be missing. What is still too large becomes a pointer letter of its own, unless it is small: a
    topic that does not even take that is misconfigured, and stopping loses nothing.
    """
    if message.stream == DEAD_LETTERS:
        return None if is_pointer(message) else pointer_letter(message)
    if (smaller := _without_evidence(message)) is not None:
        return smaller
    return pointer_letter(_letter(message)) if len(message.value or b"") > _SMALL_BYTES else None


def _without_evidence(message: Message) -> Message | None:
    """The sums stay exact: context + remainder = context + other channels = logit, the first one of the table."""
    if message.stream != EVENTS:
        return None
    data = _document(message)
    evidence = data.get("evidence")
    if not evidence or not evidence["spans"]:
        return None
    rest = _difference(data["classes"][0]["logit"], evidence["context"])
    nothing = {"spans": [], "channels": [], "experts": [], "remainder": rest, "other_channels": rest}
    smaller = data | {"evidence": evidence | nothing, "why_not": None, "similar": None}
    headers = (*message.headers, (CUT_HEADER, b"evidence.spans"))
    return replace(message, value=orjson.dumps(smaller), headers=headers)


def _difference(logit: float, context: float) -> float:
    """Of published decimals, as a published decimal."""
    return float(Decimal(repr(logit)) - Decimal(repr(context)))


def _letter(message: Message) -> Message:
    """Its `dl_topic` is not a possible name of a Kafka topic, so that nobody looks for it there."""
    made_by, size = _document(message).get("input", {}), len(message.value or b"")
    headers = dead_letter_headers(
        reason=TOO_LARGE,
        detail=f"{size} bytes; raise max_message_bytes of the sink and max.message.bytes of the topic",
        exception="MessageSizeTooLarge",
        topic=f"sink:{message.stream}",
        partition=made_by.get("partition", 0),
        offset=made_by.get("offset", 0),
        timestamp_ms=-1,
    )
    return Message(DEAD_LETTERS, message.key, message.value, headers)


def _document(message: Message) -> dict[str, Any]:
    document = orjson.loads(message.value or b"{}")
    return document if isinstance(document, dict) else {}
