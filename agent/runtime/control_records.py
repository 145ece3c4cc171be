"""Control records: operators' requests in the input log itself, so that a replay obeys them too. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from connectors.records import Batch, RecordLike

RESET_HEADER = "anchormoe_reset"
"""On a record without a value whose key is an asset: forget this asset's window. The header's value is the reason."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Forget the asset's samples, watermark and state: its next sample is its first."""

    asset: str
    offset: int


def split_at_resets(batch: Batch) -> Iterator[Batch | Reset]:
    """The batch, cut at its control records; mostly it has none."""
    records = batch.records
    controls = [at for at, record in enumerate(records) if record.headers and _is_reset(record)]
    low = 0
    for at in controls:
        if at > low:
            yield Batch(batch.partition, records[low:at])
        yield Reset((records[at].key or b"").decode(errors="replace"), records[at].offset)
        low = at + 1
    if low < len(records):
        yield Batch(batch.partition, records[low:] if low else records)


def _is_reset(record: RecordLike) -> bool:
    return any(name == RESET_HEADER for name, _ in record.headers)
