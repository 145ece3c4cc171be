"""What really was: states of assets over time, as JSON lines. Pure.

{"asset":"pump-1","state":"worn","start":"2026-01-01T00:00:10Z","end":"2026-01-01T00:00:45Z","fault":true}
"""

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from anchormoe.errors import DataError
from connectors.errors import RecordError
from connectors.timestamps import TimeReader, format_iso

USUAL = frozenset({"normal", "healthy", "ok", "good", "stable", "0"})
"""Names of states that are no fault, where a line does not say so itself."""

_TIME = TimeReader("iso", utc_offset_minutes=0)


@dataclass(frozen=True, slots=True, order=True)
class TruthInterval:
    """The asset was in the state from `start_ns` on, up to and without `end_ns`."""

    asset: str
    start_ns: int
    end_ns: int
    state: str
    fault: bool

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns

    def to_line(self) -> bytes:
        times = {"start": format_iso(self.start_ns), "end": format_iso(self.end_ns)}
        return orjson.dumps({"asset": self.asset, "state": self.state, **times, "fault": self.fault}) + b"\n"


def read_truth(lines: Iterable[bytes], name: str) -> list[TruthInterval]:
    """In order; times without a zone are UTC. Raises DataError that names the line."""
    found = [_interval(line, f"{name}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    return sorted(found)


def _interval(line: bytes, place: str) -> TruthInterval:
    try:
        given = orjson.loads(line)
        asset, state = str(given["asset"]), str(given["state"])
        start, end = _TIME.read(given["start"], "start"), _TIME.read(given["end"], "end")
        fault = bool(given.get("fault", state.lower() not in USUAL))
    except (ValueError, KeyError, TypeError, AttributeError, RecordError) as error:
        raise DataError(f"{place}: needs asset, state, start and end as ISO times: {error}") from error
    if end <= start:
        raise DataError(f"{place}: it ends before it begins")
    return TruthInterval(asset, start, end, state, fault)
