"""Records that could not be used, with their original bytes and the reason in headers. Pure."""

from dataclasses import dataclass
from importlib.metadata import version

from connectors.errors import RecordError
from connectors.records import DEAD_LETTERS, Message, Partition, RecordLike

LATE = "late"
ASSET_MOVED = "asset_moved"
TOO_MANY_ASSETS = "too_many_assets"

DETAILS = {
    LATE: "behind its asset's newest sample by more than the lateness",
    ASSET_MOVED: "its asset was first seen in another partition; key records by asset",
    TOO_MANY_ASSETS: "the group's limit of assets is reached",
}


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A refused record on its way out."""

    offset: int
    reason: str
    detail: str
    message: Message


def dead_letter(
    record: RecordLike,
    partition: Partition,
    *,
    reason: str,
    detail: str,
    field: str | None = None,
    exception: str = RecordError.__name__,
) -> DeadLetter:
    """The record as it came; its own headers stay, ours begin with `dl_`."""
    ours = {
        "dl_reason": reason,
        "dl_detail": detail,
        "dl_field": field or "",
        "dl_exception": exception,
        "dl_topic": partition.topic,
        "dl_partition": str(partition.number),
        "dl_offset": str(record.offset),
        "dl_timestamp_ms": str(record.timestamp),
        "dl_version": version("anchormoe-agent"),
    }
    headers = (*record.headers, *((name, text.encode()) for name, text in ours.items()))
    return DeadLetter(record.offset, reason, detail, Message(DEAD_LETTERS, record.key, record.value, headers))
