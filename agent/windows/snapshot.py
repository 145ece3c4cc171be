"""Checkpoints of a group's windows: what is stored, and how it is put back. Pure.

A checkpoint has the changed bytes of the ring buffers, and a header with every asset's newest index, last record and
state. The version of the header is part of the layout digest, so windows of another version are not read.

The header also has a checksum of every ring buffer: rings of another checkpoint, as a store may hold them that lost
writes, do not fit. What an asset's state holds beyond its label is in a part of its own. Headers of agents that wrote
neither are read without, and such agents read these.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import astuple, replace
from typing import Annotated, Any

import msgspec
import orjson

from agent.windows.asset_state import AssetState, SensorFault
from agent.windows.commit_metadata import LogSeen
from agent.windows.group import GroupWindows
from agent.windows.hysteresis import Track, Tracks
from agent.windows.spec import GroupSpec
from connectors.base import Checkpoint, RingWrite, StoredWindows

_HEADER_VERSION = 4


def layout_digest(spec: GroupSpec) -> str:
    """Names the meaning of the stored bytes; stored windows of another layout are not read."""
    parts = [_HEADER_VERSION, spec.name, spec.channels, spec.grid, spec.shape]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def make_checkpoint(windows: GroupWindows, states: Mapping[str, AssetState]) -> Checkpoint:
    """The ring buffers' changes since the last checkpoint, and a header that lists every asset.

    `states` are the assets' states after the last record that the windows have seen.
    """
    rings = windows.rings
    rows = [int(row) for row in rings.dirty_rows()]
    writes = [RingWrite(rings.names[row], rings.ring_bytes, rings.pieces(row)) for row in rows]
    return Checkpoint(writes, _header(windows, states), list(rings.rows), sorted(windows.expired - rings.rows.keys()))


_Number = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_State = tuple[_Number, str, _Number, tuple[str, ...], str | None]


class _Log(msgspec.Struct):
    id: str | None = None
    last: str | None = None
    committed: _Offset | None = None


_Track = tuple[str, str | None, tuple[tuple[str, _Number], ...]]


class _Memory(msgspec.Struct):
    sensors: tuple[tuple[str, str, _Number], ...] = ()
    tracks: tuple[_Track, _Track] | None = None


class _Header(msgspec.Struct):
    """What `_header` writes; `assets` are name, newest index, last record's index, state; `memories` the rest of it."""

    cursor: _Offset
    rebuild: _Offset
    clock: _Number
    late_runs: dict[str, _Offset]
    lossy: bool
    whole_from: dict[str, _Number]
    assets: list[tuple[str, _Number, _Number, _State | None]]
    checksums: list[_Offset | None] | None = None
    memories: dict[str, _Memory] = msgspec.field(default_factory=dict)
    log: _Log | None = None
    births: str | None = None


_decode_header = msgspec.json.Decoder(_Header).decode


def restore_windows(windows: GroupWindows, stored: StoredWindows) -> dict[str, AssetState] | None:
    """Put stored windows back into empty ones: the assets' states.

    None when the header cannot be read, or a listed ring buffer is missing or does not fit; then the windows must not
    be used. What a store gives back is checked like any other input: it must not stop a partition.
    """
    header = _read_header(stored.header)
    if header is None:
        return None
    states: dict[str, AssetState] = {}
    checksums = header.checksums or [None] * len(header.assets)
    for (name, newest, last_seen, state), checksum in zip(header.assets, checksums, strict=True):
        ring = stored.rings.get(name)
        if ring is None or len(ring) != windows.rings.ring_bytes:
            return None
        row = windows.rings.restore(name, newest, ring)
        if checksum is not None and windows.rings.checksum(row) != checksum:
            return None
        windows.expiry.last_seen(row + 1)[row] = last_seen
        if state is not None:
            states[name] = _with_memory(AssetState(*state), header.memories.get(name))
    windows.expiry.clock = header.clock
    windows.late_runs.runs = {windows.rings.rows[name]: run for name, run in header.late_runs.items()}
    windows.cursor = header.cursor
    windows.rebuild.base = header.rebuild
    windows.history_lost, windows.complete_from = header.lossy, header.whole_from
    windows.seen = LogSeen.from_json(None if header.log is None else msgspec.to_builtins(header.log))
    windows.births = None if header.births is None else header.births.encode()
    return states


def _read_header(stored: bytes) -> _Header | None:
    """None for what `_header` cannot have written."""
    try:
        header = _decode_header(stored)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    names = {name for name, *_ in header.assets}
    listed_once = len(names) == len(header.assets) and header.late_runs.keys() <= names
    with_checksums = not header.checksums or len(header.checksums) == len(header.assets)
    return header if listed_once and with_checksums else None


def _header(windows: GroupWindows, states: Mapping[str, AssetState]) -> bytes:
    rings = windows.rings
    newest, last_seen = rings.newest.tolist(), windows.expiry.last_seen(len(rings)).tolist()
    assets = [(name, newest[row], last_seen[row], _state(states.get(name))) for name, row in rings.rows.items()]
    memories = {name: memory for name in rings.rows if (memory := _memory(states.get(name)))}
    return orjson.dumps(
        {
            "version": _HEADER_VERSION,
            "cursor": windows.cursor,
            "rebuild": windows.rebuild_offset,
            "clock": windows.expiry.clock,
            "late_runs": {rings.names[row]: run for row, run in windows.late_runs.runs.items()},
            "lossy": windows.history_lost,
            "whole_from": windows.complete_from,
            **({"log": windows.seen.as_json()} if windows.seen != LogSeen() else {}),
            **({"births": windows.births.decode()} if windows.births is not None else {}),
            "assets": assets,
            **({"memories": memories} if memories else {}),
            "checksums": [rings.checksum(row) for row in rings.rows.values()],
        }
    )


def _with_memory(state: AssetState, memory: _Memory | None) -> AssetState:
    if memory is None:
        return state
    sensors = tuple(SensorFault(*one) for one in memory.sensors)
    tracks = None if memory.tracks is None else Tracks(*(Track(*one) for one in memory.tracks))
    return replace(state, sensors=sensors, tracks=tracks)


def _memory(state: AssetState | None) -> dict[str, Any]:
    """Nearly always nothing: tracks that agree with the state follow from it."""
    if state is None:
        return {}
    calm = state.tracks is None or state.tracks == Tracks.begin(state.state, state.reason)
    sensors = {"sensors": [astuple(one) for one in state.sensors]} if state.sensors else {}
    return sensors if calm or state.tracks is None else sensors | {"tracks": astuple(state.tracks)}


def _state(state: AssetState | None) -> tuple[Any, ...] | None:
    return None if state is None else (state.end, state.state, state.since, state.missing, state.reason)
