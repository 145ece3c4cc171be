"""Records of a plant that does not exist, in the format and with the bundle of one that does; made when they are read.

The values are those of the bundle's golden windows: TRAIN's own, so that the model has the work that it was made for.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import orjson
from safetensors.numpy import load_file

from agent.errors import SettingsError
from agent.settings.records import Records
from agent.settings.resolve import ResolvedGroup
from anchormoe.bundle.files import GOLDEN
from connectors.decoding.binary import encode_chunk
from connectors.records import Partition, Record
from connectors.timestamps import NS_PER_MS, NS_PER_UNIT, format_iso

Encode = Callable[[str, int, np.ndarray], list[bytes]]
"""Asset, time of the first sample in ns and rows (samples, channels) to the values of the records."""

_FORMATS = ("wide", "narrow", "chunked", "binary", "influx")
_STEP_APART = 37
"""Between two assets, so that their windows are not the same."""


class SyntheticLog:
    """One partition; all assets in step. `made_s` is the processor time that making the records took.

    `end` may be moved ahead, also while the log is read.
    """

    def __init__(self, group: ResolvedGroup, records: Records, *, assets: int, samples: int, start_ns: int) -> None:
        self.partitions = (Partition("plan", 0),)
        self.assets = asset_ids(group.assets, assets)
        self.end, self.made_s, self.made_bytes = 0, 0.0, 0
        self._samples, self._start_ns, self._period_ns = samples, start_ns, group.grid.period_ns
        self._rows = raw_rows(group)
        self._encode = encoder(group, records, samples)
        self._per_sample = len(group.channels) if records.format == "narrow" else 1

    def records_for(self, steps: int) -> int:
        """How many records carry so many samples of every asset; whole records."""
        return math.ceil(steps / self._samples) * len(self.assets) * self._per_sample

    def first_offset(self, partition: Partition) -> int:
        return 0

    def end_offset(self, partition: Partition) -> int:
        return self.end

    def read(self, partition: Partition, offset: int, max_records: int) -> tuple[Sequence[Record], int]:
        began = time.thread_time()
        stop = min(offset + max_records, self.end)
        found = [self._record(number) for number in range(offset, stop)]
        self.made_bytes += sum(len(record.value or b"") for record in found)
        self.made_s += time.thread_time() - began
        return found, stop

    def lag(self, partition: Partition, offset: int) -> int:
        return max(self.end - offset, 0)

    def at_end(self, partition: Partition, offset: int) -> bool:
        return offset >= self.end

    def next_record_in_s(self) -> float:
        return 0.01

    def watch(self, appended: asyncio.Event) -> None:
        """Who reads looks again after a moment."""

    def unwatch(self, appended: asyncio.Event) -> None:
        """See `watch`."""

    def _record(self, number: int) -> Record:
        sample, channel = divmod(number, self._per_sample) if self._per_sample > 1 else (number, 0)
        turn, asset = divmod(sample, len(self.assets))
        first = turn * self._samples
        name, time_ns = self.assets[asset], self._start_ns + first * self._period_ns
        places = (np.arange(first, first + self._samples) + asset * _STEP_APART) % len(self._rows)
        value = self._encode(name, time_ns, self._rows[places])[channel]
        return Record(number, time_ns // NS_PER_MS, name.encode(), value)


def asset_ids(patterns: Sequence[str], count: int) -> list[str]:
    """Ids of a group: those that it names, then pump-1, pump-2 … for its first pattern."""
    named = [name for name in patterns if not set(name) & set("*?[")]
    pattern = next((name for name in patterns if set(name) & set("*?[")), "asset-*")
    numbers = range(1, count + 1)
    return [*named, *(pattern.replace("*", str(n), 1).replace("*", "").replace("?", "0") for n in numbers)][:count]


def raw_rows(group: ResolvedGroup) -> np.ndarray:
    """Samples (n, channels) in the units of the records: of the golden windows without a gap."""
    tensors = load_file(Path(group.bundle) / GOLDEN)
    whole = tensors["mask"].all(axis=(1, 2))
    windows = tensors["x"][whole if whole.any() else slice(None)]  # (n, C, T)
    rows = windows.transpose(0, 2, 1).reshape(-1, windows.shape[1]).astype(np.float64)
    scale = np.array([channel.scale for channel in group.channels])
    offset = np.array([channel.offset for channel in group.channels])
    raw: np.ndarray = ((rows - offset) / scale).round(4)
    return raw


def encoder(group: ResolvedGroup, records: Records, samples: int) -> Encode:
    """Raises SettingsError for a format that cannot be made up."""
    fields = [channel.field for channel in group.channels]
    match records.format:
        case "wide":
            return lambda asset, time_ns, rows: [_wide(records, fields, asset, time_ns, rows[0])]
        case "narrow":
            return lambda asset, time_ns, rows: _narrow(records, fields, asset, time_ns, rows[0])
        case "chunked":
            period_ms = group.grid.period_ns / NS_PER_MS
            return lambda asset, time_ns, rows: [_chunk(records, fields, asset, time_ns, rows, period_ms)]
        case "binary":
            period_ns = group.grid.period_ns
            return lambda _, time_ns, rows: [encode_chunk(rows, start_ns=time_ns, period_ns=period_ns)]
        case "influx":
            return lambda asset, time_ns, rows: [_line(records, fields, asset, time_ns, rows[0])]
        case _:
            raise SettingsError(
                f"records.format: {records.format} records cannot be made up, only {', '.join(_FORMATS)}; "
                "take --from-metrics of an agent that reads them"
            )


def _head(records: Records, asset: str, time_ns: int) -> dict[str, object]:
    head: dict[str, object] = {} if records.time.field is None else {records.time.field: _time(records, time_ns)}
    return head if records.asset_field is None else head | {records.asset_field: asset}


def _time(records: Records, time_ns: int) -> int | float | str:
    if records.time_unit == "iso":
        return format_iso(time_ns)
    factor = NS_PER_UNIT[records.time_unit]
    return time_ns // factor if time_ns % factor == 0 else time_ns / factor


def _wide(records: Records, fields: Sequence[str], asset: str, time_ns: int, row: np.ndarray) -> bytes:
    values = dict(zip(fields, row.tolist(), strict=True))
    head = _head(records, asset, time_ns)
    return orjson.dumps(head | (values if records.values_field is None else {records.values_field: values}))


def _narrow(records: Records, fields: Sequence[str], asset: str, time_ns: int, row: np.ndarray) -> list[bytes]:
    head = _head(records, asset, time_ns)
    return [
        orjson.dumps(head | {records.channel_field: field, records.value_field: value})
        for field, value in zip(fields, row.tolist(), strict=True)
    ]


def _chunk(
    records: Records, fields: Sequence[str], asset: str, time_ns: int, rows: np.ndarray, period_ms: float
) -> bytes:
    values = {field: rows[:, number].tolist() for number, field in enumerate(fields)}
    head: dict[str, object] = {} if records.asset_field is None else {records.asset_field: asset}
    head |= {"start": _time(records, time_ns), "period_ms": period_ms}
    return orjson.dumps(head | {records.values_field or "values": values})


def _line(records: Records, fields: Sequence[str], asset: str, time_ns: int, row: np.ndarray) -> bytes:
    tag = "" if records.asset_field is None else f",{records.asset_field}={asset}"
    values = ",".join(f"{field}={value}" for field, value in zip(fields, row.tolist(), strict=True))
    return f"plan{tag} {values} {time_ns // NS_PER_UNIT[records.time_unit]}".encode()
