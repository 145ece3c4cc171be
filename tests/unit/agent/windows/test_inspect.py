"""Stored windows as people see them; the bytes are those that a checkpoint writes."""

from pathlib import Path

import numpy as np

from agent.windows.asset_state import AssetState
from agent.windows.assigner import Samples, assign_windows
from agent.windows.group import GroupWindows
from agent.windows.inspect import find_asset, specs_by_layout, stored_assets
from agent.windows.snapshot import layout_digest, make_checkpoint
from agent.windows.spec import GroupSpec
from connectors.base import StoredWindows
from connectors.records import Partition
from tests.support.offline_plant import load_offline_plant, write_plant
from tests.support.plant import pumps

HOME = Partition("readings", 1)


def stored(tmp_path: Path) -> tuple[str, StoredWindows, dict[str, GroupSpec]]:
    """Five samples of one asset, the third without pressure."""
    specs = specs_by_layout(load_offline_plant(write_plant(tmp_path)).groups)
    [(layout, spec)] = specs.items()
    windows = GroupWindows.empty(spec, cursor=0)
    row = windows.rings.row("pump-1")
    values = np.array([[1, 9], [2, 9], [3, np.nan], [4, 9], [5, 9]], dtype=np.float32)
    assign_windows(windows.rings, Samples(np.full(5, row), np.arange(100, 105), values), idle_after_steps=10)
    checkpoint = make_checkpoint(windows, {"pump-1": AssetState(104, "high", 102, ())})
    rings = {write.asset: write.pieces[0][1] for write in checkpoint.writes}
    return layout, StoredWindows(checkpoint.header, rings), specs


def test_the_layout_is_the_one_the_agent_writes(tmp_path: Path) -> None:
    layout, _, _ = stored(tmp_path)
    assert layout == layout_digest(pumps().spec)


def test_an_asset_shows_its_last_window_coverage_watermark_and_state(tmp_path: Path) -> None:
    layout, content, specs = stored(tmp_path)
    [asset] = stored_assets(specs[layout], HOME, content)
    np.testing.assert_array_equal(asset.window, [[2, 3, 4, 5], [9, np.nan, 9, 9]])
    facts = asset.as_json()
    assert facts == {
        "asset": "pump-1",
        "group": "pumps",
        "topic": "readings",
        "partition": 1,
        "newest": "1970-01-01T00:01:44Z",
        "watermark": "1970-01-01T00:01:43Z",
        "coverage": 0.875,
        "coverage_by_channel": {"flow": 1.0, "pressure": 0.75},
        "state": "high",
        "since": "1970-01-01T00:01:42Z",
    }
    assert find_asset([asset], "pump-1") == {HOME: asset}
    assert find_asset([asset], "pump-2") == {}


def test_a_missing_ring_leaves_nothing_to_show(tmp_path: Path) -> None:
    layout, content, specs = stored(tmp_path)
    assert list(stored_assets(specs[layout], HOME, StoredWindows(content.header, {}))) == []
