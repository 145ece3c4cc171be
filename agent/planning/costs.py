"""Where the planner's costs come from: measured here, read from a running agent or a file, or assumed. Pure."""

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from agent.errors import SettingsError
from agent.planning.formulas import Costs, Figure, Origin
from agent.settings.resolve import ResolvedGroup

CLIENT_RECORD_S = 1.3e-6
"""Kafka's client, for a record that is fetched; with the next two: `python -m tests.bench.plan` compares them."""
CLIENT_EVENT_S = 90e-6
"""Kafka's client, for an event and its state that are sent and acknowledged."""
CLIENT_BYTES = 30_000_000
"""Buffers of Kafka's client and what a process with connections holds beside the pipeline."""
BASE_BYTES = 300e6
ASSET_EXTRA_BYTES = 1_500
"""Beside the ring buffer: its state, its name, its rows in tables."""

_ASSUMED = {
    "record_s": 6e-6,
    "window_s": 0.6e-3,
    "event_s": 0.35e-3,
    "record_bytes": 200.0,
    "event_bytes": 2_000.0,
    "window_bytes": 45_000.0,
    "header_bytes": 130.0,
}
_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_STAGES_OF = {"record": ("decode", "ingest", "checkpoint"), "window": ("classify",), "event": ("publish",)}
_FORMAT = 1
_MOST_S, _MOST_BYTES = 60.0, 1e12
"""No record, window or event takes longer, none is larger."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one group. Seconds are processor time, without the clients of Kafka and Redis."""

    record_s: float
    window_s: float
    event_s: float
    record_bytes: float
    event_bytes: float
    asset_bytes: float
    window_bytes: float
    header_bytes: float
    base_bytes: float


@dataclass(frozen=True, slots=True)
class Machine:
    """Where figures were measured. `load` is the average over a minute, before the measurement."""

    host: str
    cores: int
    load: float
    agent: str
    python: str

    @classmethod
    def this(cls) -> "Machine":
        cores, load = os.cpu_count() or 1, os.getloadavg()[0]
        return cls(platform.node(), cores, round(load, 2), version("anchormoe-agent"), platform.python_version())


def events_per_window(group: ResolvedGroup, policy: str, heartbeat_s: float | None, changes_per_hour: float) -> float:
    """All windows, or the changes and the heartbeats."""
    if policy == "all":
        return 1.0
    hop_s = group.hop_ns / 1e9
    regular = hop_s / heartbeat_s if policy == "changes+heartbeat" and heartbeat_s else 0.0
    return min(changes_per_hour * hop_s / 3600 + regular, 1.0)


def measured_costs(found: Measured, per_window: Figure, origin: Origin) -> Costs:
    """With the clients' share."""
    return Costs(
        record_s=Figure(found.record_s + CLIENT_RECORD_S, origin),
        window_s=Figure(found.window_s, origin),
        event_s=Figure(found.event_s + CLIENT_EVENT_S, origin),
        events_per_window=per_window,
        record_bytes=Figure(found.record_bytes, origin),
        event_bytes=Figure(found.event_bytes, origin),
        asset_bytes=Figure(found.asset_bytes, origin),
        window_bytes=Figure(found.window_bytes, origin),
        header_bytes=Figure(found.header_bytes, origin),
    )


def assumed_costs(group: ResolvedGroup, per_window: Figure) -> Costs:
    """Those of the demonstration's pump on the machine of docs/results."""
    figures = {name: Figure(value, "assumed") for name, value in _ASSUMED.items()}
    asset = Figure(least_asset_bytes(group) + ASSET_EXTRA_BYTES, "assumed")
    return Costs(**figures, events_per_window=per_window, asset_bytes=asset)


def least_asset_bytes(group: ResolvedGroup) -> float:
    """The ring buffer alone."""
    steps = group.shape.length + group.shape.hop + group.shape.lateness
    return 2.0 * steps * len(group.channels) * 4


def as_document(machine: Machine, digests: Mapping[str, str], found: Mapping[str, Measured]) -> dict[str, Any]:
    groups = {name: {"bundle": digests[name], **_as_dict(each)} for name, each in found.items()}
    return {"format": _FORMAT, "machine": _as_dict(machine), "groups": groups}


def from_document(document: Any, digests: Mapping[str, str]) -> tuple[Machine, dict[str, Measured]]:
    """Raises SettingsError, also where a bundle is another than the one that was measured."""
    try:
        if document["format"] != _FORMAT:
            raise SettingsError(f"--costs: format {document['format']} is not {_FORMAT}; measure again")
        machine, groups = Machine(**document["machine"]), document["groups"]
        found = {}
        for name, digest in digests.items():
            if name not in groups:
                raise SettingsError(f"--costs: it has no group {name}, only {', '.join(groups)}; measure again")
            each = dict(groups[name])
            if each.pop("bundle") != digest:
                raise SettingsError(f"--costs: group {name} has another bundle now; measure again")
            found[name] = Measured(**{key: _possible(name, key, float(value)) for key, value in each.items()})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SettingsError(f"--costs: not a file that plan --measure has written: {error}") from error
    return machine, found


def _possible(group: str, name: str, value: float) -> float:
    """A file that somebody has edited must not give a plan that is nonsense."""
    if not 0 <= value <= (_MOST_S if name.endswith("_s") else _MOST_BYTES):
        raise SettingsError(f"--costs: group {group}: {name} is {value}, which cannot be; measure again")
    return value


def read_metrics(text: str) -> dict[tuple[str, str], float]:
    """Samples by name and labels, the labels as they are written."""
    found = {}
    for line in text.splitlines():
        if sample := _SAMPLE.match(line):
            try:
                found[sample[1], sample[2] or ""] = float(sample[3])
            except ValueError:
                continue
    return found


@dataclass(frozen=True, slots=True)
class Running:
    """What a running agent's metrics say about all of its groups together."""

    record_s: float
    window_s: float
    event_s: float
    events_per_window: float
    resident_bytes: float
    assets: float


def between_scrapes(first: str, second: str, seconds: float) -> Running:
    """The stages' shares of the processor time that the process took. Raises SettingsError where nothing happened."""
    before, after = read_metrics(first), read_metrics(second)

    def grown(name: str, labels: str = "") -> float:
        return after.get((name, labels), 0.0) - before.get((name, labels), 0.0)

    def total(name: str) -> float:
        return sum(value - before.get(at, 0.0) for at, value in after.items() if at[0] == name)

    if ("anchormoe_records_total", "") not in after:
        raise SettingsError("--from-metrics: this is not the /metrics of an agent (no anchormoe_records_total)")
    records, windows, events = (
        grown("anchormoe_records_total"),
        grown("anchormoe_windows_total"),
        total("anchormoe_events_total"),
    )
    cpu_s = grown("process_cpu_seconds_total")
    if records <= 0 or windows <= 0 or cpu_s <= 0:
        what = f"{records:.0f} records and {windows:.0f} windows in {seconds:.0f} s"
        raise SettingsError(f"--from-metrics: the agent has had {what}; ask it while it works, or for longer")
    stages = {
        part: sum(grown("anchormoe_stage_seconds_sum", f'stage="{stage}"') for stage in names)
        for part, names in _STAGES_OF.items()
    }
    busy_s = sum(stages.values()) or 1.0
    share = {part: cpu_s * own_s / busy_s for part, own_s in stages.items()}
    return Running(
        record_s=share["record"] / records,
        window_s=share["window"] / windows if events else (share["window"] + share["event"]) / windows,
        event_s=share["event"] / events if events else 0.0,
        events_per_window=events / windows,
        resident_bytes=after.get(("process_resident_memory_bytes", ""), 0.0),
        assets=sum(value for (name, _), value in after.items() if name == "anchormoe_assets"),
    )


def running_costs(found: Running, group: ResolvedGroup) -> Costs:
    """What metrics do not tell (sizes) stays assumed."""
    assumed = assumed_costs(group, Figure(found.events_per_window, "measured there"))
    return Costs(
        record_s=Figure(found.record_s, "measured there"),
        window_s=Figure(found.window_s, "measured there"),
        event_s=Figure(found.event_s, "measured there"),
        events_per_window=assumed.events_per_window,
        record_bytes=assumed.record_bytes,
        event_bytes=assumed.event_bytes,
        asset_bytes=assumed.asset_bytes,
        window_bytes=assumed.window_bytes,
        header_bytes=assumed.header_bytes,
    )


def _as_dict(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
