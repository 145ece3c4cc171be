"""Stored windows as people want to see them: per asset the newest sample, coverage, state and the window. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from agent.events.group import Publishing, Watched
from agent.settings import ResolvedGroup
from agent.windows.group import GroupWindows, restore_windows
from agent.windows.ring_buffers import NEVER
from anchormoe.windows import Floats, coverage
from connectors.base import StoredWindows
from connectors.records import Partition

if TYPE_CHECKING:
    from agent.models.classifier import WindowClassifier


@dataclass(frozen=True, slots=True)
class StoredAsset:
    """`window` (C, T) is the last one that is complete or growing: it ends with the newest sample."""

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
        from connectors.timestamps import format_iso

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


def layout_only(groups: Iterable[ResolvedGroup]) -> dict[str, Watched]:
    """The groups by the layout of their stored windows; without a model, for looking needs none."""
    watched = [_without_judge(group) for group in groups]
    return {GroupWindows.empty(each, cursor=0).layout: each for each in watched}


def stored_assets(watched: Watched, partition: Partition, stored: StoredWindows) -> Iterator[StoredAsset]:
    """In order of first sight. Nothing when a ring is missing: then the owner rebuilds, and there is nothing to see."""
    windows = GroupWindows.empty(watched, cursor=0)
    if not restore_windows(windows, stored):
        return
    for row, name in enumerate(windows.rings.names):
        newest = int(windows.rings.newest[row])
        if newest != NEVER:
            yield _asset(windows, partition, row, name, newest)


def _asset(windows: GroupWindows, partition: Partition, row: int, name: str, newest: int) -> StoredAsset:
    watched, standing = windows.watched, windows.standings.get(name)
    window = windows.rings.cut(np.array([row]), np.array([newest + 1]))  # (1, C, T)
    return StoredAsset(
        asset=name,
        group=watched.name,
        partition=partition,
        channels=watched.channels,
        newest_ns=watched.grid.time_ns(newest),
        watermark_ns=watched.grid.time_ns(newest - watched.shape.lateness),
        coverage=float(coverage(~np.isnan(window))[0]),
        state=standing.state if standing else None,
        since_ns=watched.grid.time_ns(standing.since) if standing else None,
        window=window[0],
    )


def _without_judge(group: ResolvedGroup) -> Watched:
    return Watched(
        name=group.name,
        channels=group.channel_names,
        grid=group.grid,
        shape=group.shape,
        idle_after=group.idle_after,
        rebuild_horizon=0,
        max_assets=group.max_assets,
        judge=cast("WindowClassifier", None),
        model=cast("Any", None),
        publishing=cast("Publishing", None),
    )


def find_asset(assets: Iterable[StoredAsset], name: str) -> Mapping[Partition, StoredAsset]:
    """The asset wherever it is stored; in more than one place only when it has moved."""
    return {each.partition: each for each in assets if each.asset == name}
