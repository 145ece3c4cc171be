"""Ground truth: the true states of assets over time, as JSON lines. Pure.

{"asset":"pump-1","state":"worn","start":"2026-01-01T00:00:10Z","end":"2026-01-01T00:00:45Z","fault":true}
"""

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from agent.event_types import is_normal_state
from anchormoe.errors import DataError
from connectors.timestamps import format_iso, parse_iso


@dataclass(frozen=True, slots=True, order=True)
class TruthInterval:
    """The asset was in the state in [start_ns, end_ns). `fault` is given, or follows from the name of the state."""

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
    """Sorted by asset and time; times without a zone are UTC. Raises DataError that names the line."""
    intervals = [_interval(line, f"{name}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    return sorted(intervals)


def _interval(line: bytes, place: str) -> TruthInterval:
    try:
        entry = orjson.loads(line)
        asset, state = str(entry["asset"]), str(entry["state"])
        start, end = parse_iso(entry["start"]), parse_iso(entry["end"])
        fault = bool(entry.get("fault", not is_normal_state(state)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{place}: must be an object with asset, state, and start and end as ISO times: {error}"
        ) from error
    if end <= start:
        raise DataError(f"{place}: end {entry['end']} is not after start {entry['start']}")
    return TruthInterval(asset, start, end, state, fault)
