"""Dead letters: records that could not be used, with their original bytes and the reason in `dl_` headers. Pure."""

from dataclasses import dataclass
from importlib.metadata import version

from connectors.errors import RecordError
from connectors.records import DEAD_LETTERS, Message, Partition, RecordLike

LATE = "late"
ASSET_MOVED = "asset_moved"
"""Written by versions up to 0.1, which used an asset's records from one partition only; see decision 0011."""
TOO_MANY_ASSETS = "too_many_assets"

DETAILS = {
    LATE: "older than its asset's newest sample by more than the allowed lateness",
    TOO_MANY_ASSETS: "the group has reached its limit of assets (max_assets)",
}

MAX_TEXT_BYTES = 1024
"""Of one `dl_` header: details and fields carry names out of records, which may be of any length."""

_VERSION = version("anchormoe-agent")  # once: each look-up reads the package's metadata from disk


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A rejected record, ready to be published."""

    offset: int
    reason: str
    detail: str
    message: Message


def dead_letter_headers(
    *,
    reason: str,
    detail: str,
    exception: str,
    topic: str,
    partition: int,
    offset: int,
    timestamp_ms: int,
    field: str | None = None,
) -> tuple[tuple[str, bytes], ...]:
    """Why a record was rejected, where it came from, and which version of the agent rejected it; each text is cut."""
    headers = {
        "dl_reason": reason,
        "dl_detail": detail,
        "dl_field": field or "",
        "dl_exception": exception,
        "dl_topic": topic,
        "dl_partition": str(partition),
        "dl_offset": str(offset),
        "dl_timestamp_ms": str(timestamp_ms),
        "dl_version": _VERSION,
    }
    return tuple((name, _cut(text)) for name, text in headers.items())


def _cut(text: str) -> bytes:
    """At most `MAX_TEXT_BYTES` of UTF-8, cut between two characters."""
    encoded = text.encode(errors="backslashreplace")
    if len(encoded) <= MAX_TEXT_BYTES:
        return encoded
    mark = "…".encode()
    return encoded[: MAX_TEXT_BYTES - len(mark)].decode(errors="ignore").encode() + mark


def dead_letter(
    record: RecordLike,
    partition: Partition,
    *,
    reason: str,
    detail: str,
    field: str | None = None,
    exception: str = RecordError.__name__,
) -> DeadLetter:
    """The record with its own key, bytes and headers; the `dl_` headers follow."""
    headers = dead_letter_headers(
        reason=reason,
        detail=detail,
        exception=exception,
        topic=partition.topic,
        partition=partition.number,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        field=field,
    )
    message = Message(DEAD_LETTERS, record.key, record.value, (*record.headers, *headers))
    return DeadLetter(record.offset, reason, detail, message)
