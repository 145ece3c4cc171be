"""Control records: operators' requests in the input log itself, so that a replay obeys them too. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from connectors.decoding.assets import is_asset_id
from connectors.records import Batch, RecordLike, RejectedRecord

RESET_HEADER = "anchormoe_reset"
"""On a record without a value whose key is an asset: forget this asset's window. The header's value is the reason."""
BAD_CONTROL = "bad_control"


@dataclass(frozen=True, slots=True)
class Reset:
    """Forget the asset's samples, watermark and state: its next sample is its first."""

    asset: str
    offset: int


def split_at_resets(batch: Batch, *, accept: bool = True) -> Iterator[Batch | Reset]:
    """The batch, cut at its control records; mostly it has none. Those that are not obeyed stay in it, rejected.

    `accept` is records.control: who may write sensor data is not always allowed to reset windows.
    """
    controls = {
        at: _read(record, accept) for at, record in enumerate(batch.records) if record.headers and _has_reset(record)
    }
    if not controls:
        yield batch
        return
    records = [
        control if isinstance(control := controls.get(at), RejectedRecord) else record
        for at, record in enumerate(batch.records)
    ]
    low = 0
    for at, control in controls.items():
        if isinstance(control, Reset):
            if at > low:
                yield Batch(batch.partition, records[low:at])
            yield control
            low = at + 1
    if low < len(records):
        yield Batch(batch.partition, records[low:])


def _has_reset(record: RecordLike) -> bool:
    if isinstance(record, RejectedRecord):
        return False
    return any(name == RESET_HEADER for name, _ in record.headers)


def _read(record: RecordLike, accept: bool) -> Reset | RejectedRecord:
    if not accept:
        detail = f"a control record ({RESET_HEADER}), and records.control is reject; set it to accept to obey them"
    elif record.value:
        detail = f"a control record ({RESET_HEADER}) has no value; this one has {len(record.value)} bytes"
    else:
        asset = (record.key or b"").decode(errors="replace")
        if is_asset_id(asset):
            return Reset(asset, record.offset)
        detail = f"the key of a control record ({RESET_HEADER}) is an asset id"
    place = (record.offset, record.timestamp, record.key, record.value, record.headers)
    return RejectedRecord(*place, reason=BAD_CONTROL, detail=detail)
