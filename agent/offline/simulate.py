"""A simulated plant that fits a configuration: its assets, its records in the plant's format, its true states. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from agent.errors import SettingsError
from agent.offline.ground_truth import TruthInterval
from agent.settings import Channel, Group, Plant, SimulatorSourceSettings
from connectors.records import Record, RecordLike
from connectors.simulator.labels import labelled_intervals
from connectors.simulator.plants import KINDS, PlantKind, SimulatedAsset
from connectors.timestamps import NS_PER_MS, NS_PER_UNIT, format_iso

_WILDCARDS = "*?"


def simulated_assets(
    plant: Plant, *, named: Mapping[str, str], per_group: int, seed: int, channels: Mapping[str, Sequence[str]]
) -> list[SimulatedAsset]:
    """`named` assets (id to kind); else those of a simulator source; else some for each group, of the kind that fits.

    A kind fits a group that has its channels; `channels` are those of each group's bundle, where it exists.
    Raises SettingsError.
    """
    if not named and isinstance(plant.source, SimulatorSourceSettings):
        named = {asset.id: asset.kind for asset in plant.source.assets}
    if not named:
        named = {
            asset: _kind(group, channels.get(group.name)).name
            for group in plant.groups
            for asset in asset_ids(group.assets, per_group)
        }
    unknown = [kind for kind in named.values() if kind not in KINDS]
    if unknown:
        raise SettingsError(f"--asset: {unknown[0]!r} is not one of {', '.join(KINDS)}")
    return [SimulatedAsset(asset, KINDS[kind], seed) for asset, kind in named.items()]


def _kind(group: Group, bundled: Sequence[str] | None) -> PlantKind:
    stated = [channel.name for channel in group.channels or ()] or bundled
    for kind in KINDS.values():
        by_name = stated is None and any(pattern.startswith(kind.name) for pattern in group.assets)
        if by_name or (stated is not None and set(stated) == set(kind.channels)):
            return kind
    known = "; ".join(f"{kind.name}: {', '.join(kind.channels)}" for kind in KINDS.values())
    has = "no known channels" if stated is None else f"the channels {', '.join(stated)}"
    raise SettingsError(f"group {group.name} has {has}, which fit no simulated kind ({known}); use --asset ID=KIND")


def asset_ids(patterns: Sequence[str], count: int) -> list[str]:
    """Ids that match the patterns: pump-* becomes pump-1, pump-2 …"""
    plain = [name for name in patterns if not set(name) & set(_WILDCARDS)]
    patterned = [name for name in patterns if set(name) & set(_WILDCARDS)]
    numbered = [
        name.replace("*", str(n), 1).replace("*", "").replace("?", "0")
        for name in patterned
        for n in range(1, count + 1)
    ]
    return list(dict.fromkeys([*plain, *numbered]))


def true_states(
    assets: Sequence[SimulatedAsset], *, start_ns: int, length_ns: int, samples: int | None = None
) -> list[TruthInterval]:
    """From the start on for `length_ns`, but for no more than `samples` of each asset."""
    return [
        interval
        for asset in assets
        for interval in _intervals(asset, start_ns, min(-(-length_ns // asset.kind.period_ns), samples or 1 << 62))
    ]


def _intervals(asset: SimulatedAsset, start_ns: int, samples: int) -> Iterator[TruthInterval]:
    kind = asset.kind
    for state, first, stop in labelled_intervals(asset, samples):
        begin_ns, end_ns = start_ns + first * kind.period_ns, start_ns + stop * kind.period_ns
        yield TruthInterval(asset.name, begin_ns, end_ns, kind.states[state], fault=state != 0)


@dataclass(frozen=True, slots=True)
class RecordConverter:
    """From the simulator's records (`ts`, `asset` and the channels by name) to the names and units of a plant's."""

    channels: Mapping[str, Channel]
    time_field: str | None
    time_unit: str
    asset_field: str | None
    values_field: str | None
    unchanged: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "unchanged", self._is_unchanged())  # once, because every record asks

    @classmethod
    def of(cls, plant: Plant) -> "RecordConverter":
        """Raises SettingsError: only wide records can be simulated."""
        records = plant.records
        if records.format != "wide":
            raise SettingsError(f"records.format: {records.format} records cannot be simulated, only wide ones")
        stated = {channel.name: channel for group in plant.groups for channel in group.channels or ()}
        return cls(stated, records.time.field, records.time.unit, records.asset_field, records.values_field)

    def _is_unchanged(self) -> bool:
        """Whether the plant reads the simulator's own format; the field `asset` does no harm where the key names it."""
        same_values = all(_raw(channel, 1.0) == (channel.name, 1.0) for channel in self.channels.values())
        time = (self.time_field, self.time_unit) == ("ts", "ms")
        return same_values and time and self.asset_field in (None, "asset") and self.values_field is None

    def convert(self, record: RecordLike) -> RecordLike:
        """A record that the simulator has truncated stays as it is."""
        if self.unchanged:
            return record
        try:
            given = orjson.loads(record.value or b"")
        except orjson.JSONDecodeError:
            return record
        value = orjson.dumps(self._document(given))
        return Record(record.offset, record.timestamp, record.key, value, record.headers)

    def _document(self, given: dict[str, Any]) -> dict[str, Any]:
        time_ns, asset = given.pop("ts") * NS_PER_MS, given.pop("asset")
        values = dict(_raw(self.channels.get(name), value, name) for name, value in given.items())
        head: dict[str, Any] = {} if self.time_field is None else {self.time_field: self._time(time_ns)}
        head |= {} if self.asset_field is None else {self.asset_field: asset}
        return head | (values if self.values_field is None else {self.values_field: values})

    def _time(self, time_ns: int) -> int | float | str:
        if self.time_unit == "iso":
            return format_iso(time_ns)
        factor = NS_PER_UNIT[self.time_unit]
        return time_ns // factor if time_ns % factor == 0 else time_ns / factor


def _raw(channel: Channel | None, value: float | None, name: str = "") -> tuple[str, float | None]:
    """The inverse of value = raw × scale + offset."""
    if channel is None:
        return name, value
    return channel.field or channel.name, None if value is None else (value - channel.offset) / channel.scale
