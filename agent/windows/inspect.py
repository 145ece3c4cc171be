"""Stored windows for people: newest sample, coverage, state and last window of every asset. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent.settings import ResolvedGroup
from agent.windows.asset_state import AssetState
from agent.windows.group import GroupWindows
from agent.windows.ring_buffers import NEVER
from agent.windows.snapshot import layout_digest, restore_windows
from agent.windows.spec import GroupSpec
from anchormoe.windows import Floats, coverage
from connectors.base import StoredWindows
from connectors.records import Partition
from connectors.timestamps import format_iso


@dataclass(frozen=True, slots=True)
class StoredAsset:
    """`window` (C, T) ends with the newest sample, so it may still be incomplete."""

    asset: str
    group: str
    partition: Partition
    channels: tuple[str, ...]
    newest_ns: int
    watermark_ns: int
    coverage: float
    state: str | None
    since_ns: int | None
    window: Floats

    def as_json(self) -> dict[str, Any]:
        shares = np.mean(~np.isnan(self.window), axis=1).tolist()
        return {
            "asset": self.asset,
            "group": self.group,
            "topic": self.partition.topic,
            "partition": self.partition.number,
            "newest": format_iso(self.newest_ns),
            "watermark": format_iso(self.watermark_ns),
            "coverage": self.coverage,
            "coverage_by_channel": dict(zip(self.channels, shares, strict=True)),
            "state": self.state,
            "since": None if self.since_ns is None else format_iso(self.since_ns),
        }


@dataclass(frozen=True, slots=True)
class TornCheckpoint:
    """A checkpoint that cannot be shown: its rings were written, its header was not. `assets` as far as known."""

    partition: Partition
    group: str
    assets: tuple[str, ...]

    def __str__(self) -> str:
        affected = f" of {', '.join(self.assets[:5])}{' …' if len(self.assets) > 5 else ''}" if self.assets else ""
        return (
            f"the stored checkpoint of {self.partition}, group {self.group}, is torn: an agent is writing it or "
            f"stopped in between. The windows{affected} are rebuilt from the log when an agent next takes the partition"
        )


def specs_by_layout(groups: Iterable[ResolvedGroup]) -> dict[str, GroupSpec]:
    """Every group under the digest with which its windows are stored."""
    specs = [GroupSpec.from_settings(group, assets_per_partition=group.max_assets) for group in groups]
    return {layout_digest(spec): spec for spec in specs}


def stored_assets(spec: GroupSpec, partition: Partition, stored: StoredWindows) -> Iterator[StoredAsset]:
    """In order of first appearance. Nothing when a ring buffer is missing: the owner will rebuild all of them."""
    windows = GroupWindows.empty(spec, cursor=0)
    states = restore_windows(windows, stored)
    if states is None:
        return
    for row, name in enumerate(windows.rings.names):
        if windows.rings.newest[row] != NEVER:
            yield _stored_asset(windows, partition, row, states.get(name))


def find_asset(assets: Iterable[StoredAsset], name: str) -> Mapping[Partition, StoredAsset]:
    """The asset in every partition that stores it; more than one only when the asset has moved."""
    return {each.partition: each for each in assets if each.asset == name}


def _stored_asset(windows: GroupWindows, partition: Partition, row: int, state: AssetState | None) -> StoredAsset:
    spec, newest = windows.spec, int(windows.rings.newest[row])
    window = windows.rings.cut(np.array([row]), np.array([newest + 1]))  # (1, C, T)
    return StoredAsset(
        asset=windows.rings.names[row],
        group=spec.name,
        partition=partition,
        channels=spec.channels,
        newest_ns=spec.grid.time_ns(newest),
        watermark_ns=spec.grid.time_ns(newest - spec.shape.lateness),
        coverage=float(coverage(~np.isnan(window))[0]),
        state=state.state if state else None,
        since_ns=spec.grid.time_ns(state.since) if state else None,
        window=window[0],
    )
