"""Activations: from which window end on a bundle is active in a group, and the rules for a new one. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import orjson

from anchormoe.windows import Index
from connectors.errors import RecordError
from connectors.timestamps import format_iso

AHEAD_NS = 60_000_000_000
"""How far ahead an activation must be: every agent has to have read it before its first window is due."""
MALFORMED = "malformed"
CONFIGURED = -1
"""The position of the bundle in plant.yaml: before every activation."""

_LONGEST_TEXT = 1000
_LATEST_NS = 1 << 62


@dataclass(frozen=True, slots=True)
class Activation:
    """From window end `effective_ns` on, the bundle with this digest classifies the group's windows.

    `bundle` is its name in the directory of bundles; None means the bundle that plant.yaml names for the group.
    """

    group: str
    effective_ns: int
    digest: str
    bundle: str | None
    by: str
    written_ns: int
    reason: str

    @property
    def key(self) -> bytes:
        """One per group and effective end, so that a compacted topic keeps the whole history."""
        return f"{self.group}/{self.effective_ns}".encode()


def encode_activation(activation: Activation) -> bytes:
    """The times are repeated as text, for people who read the topic."""
    readable = {"effective": format_iso(activation.effective_ns), "written": format_iso(activation.written_ns)}
    return orjson.dumps(asdict(activation) | readable)


def decode_activation(value: bytes | None) -> Activation:
    """Raises RecordError for anything else."""
    try:
        entry = orjson.loads(value or b"")
    except orjson.JSONDecodeError as error:
        raise RecordError(MALFORMED, f"not JSON: {error}") from error
    if not isinstance(entry, dict):
        raise RecordError(MALFORMED, "not a JSON object")
    return Activation(
        group=_text(entry, "group"),
        effective_ns=_time(entry, "effective_ns"),
        digest=_text(entry, "digest"),
        bundle=None if entry.get("bundle") is None else _text(entry, "bundle"),
        by=_text(entry, "by"),
        written_ns=_time(entry, "written_ns"),
        reason=_text(entry, "reason"),
    )


def timeline(activations: Iterable[Activation], group: str) -> tuple[Activation, ...]:
    """A group's activations in order of their effective ends; for one end the later one in the log counts."""
    last = {each.effective_ns: each for each in activations if each.group == group}
    return tuple(last[end] for end in sorted(last))


def positions_in_force(effective_ns: Collection[int], ends_ns: Index) -> Index:
    """For each window end, the position of the activation in force in an ordered timeline, or CONFIGURED."""
    starts = np.array(list(effective_ns), dtype=np.int64)
    found: Index = np.searchsorted(starts, ends_ns, side="right") - 1
    return found


def position_in_force(line: tuple[Activation, ...], at_ns: int) -> int:
    return int(positions_in_force([each.effective_ns for each in line], np.array([at_ns]))[0])


def predecessor(line: tuple[Activation, ...], configured: Activation) -> Activation | None:
    """What a rollback activates: the last bundle before the one that was activated last, pending or not."""
    all_so_far = [configured, *line]
    others = [each for each in all_so_far if each.digest != all_so_far[-1].digest]
    return others[-1] if others else None


def rollback_end(line: tuple[Activation, ...], now_ns: int) -> int:
    """As soon as allowed; a pending activation is replaced at its own effective end, so that it never takes effect."""
    soonest = now_ns + AHEAD_NS
    return max(soonest, line[-1].effective_ns) if line else soonest


def activation_problems(
    activation: Activation, *, now_ns: int, groups: Collection[str], digests: Collection[str]
) -> list[str]:
    """Why it must not be written; `groups` and `digests` are those that exist."""
    found = []
    if activation.group not in groups:
        found.append(f"unknown group {activation.group}; the groups are {', '.join(sorted(groups))}")
    if activation.digest not in digests:
        found.append(f"no bundle has the digest {activation.digest[:12]}")
    if activation.effective_ns < now_ns + AHEAD_NS:
        soonest = format_iso(now_ns + AHEAD_NS)
        found.append(
            f"{format_iso(activation.effective_ns)} is less than a minute ahead; the earliest time is {soonest}"
        )
    return found


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise RecordError(MALFORMED, f"{name}: must be a string of at most {_LONGEST_TEXT} characters", field=name)
    return value


def _time(entry: Mapping[str, Any], name: str) -> int:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LATEST_NS:
        raise RecordError(MALFORMED, f"{name}: must be a time in epoch nanoseconds", field=name)
    return value
