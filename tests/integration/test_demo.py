"""What `make run` shows: bundles that are what their cards say and can be made again; a demo that speaks at once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from anchormoe import Predictor
from anchormoe.bundle.config import BundleConfig
from anchormoe.windows import FillRule, Grid, WindowShape, cut, fill, on_grid
from connectors.simulator.plants import KINDS, labelled_recording

ROOT = Path(__file__).parents[2]
BUNDLES = ROOT / "configs" / "bundles"
KIND_NAMES = sorted(KINDS)
MEGABYTE = 1_000_000


def agent(*arguments: str, cwd: Path = ROOT, timeout_s: float = 280) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agent.cli.main", *arguments]
    environ = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=timeout_s, check=False)


def windows_of(kind: str, seed: int, config: BundleConfig) -> tuple[NDArray[np.float32], list[str]]:
    """Windows of a simulated individual, cut by the agent's own rules; without those in transition, as in training."""
    time_ns, values, labels, states = labelled_recording(kind, seed, 6 * KINDS[kind].cycle_samples)
    assert config.period_ns is not None
    start, steps = on_grid(Grid(config.period_ns).index(time_ns), values.astype(np.float32))
    hop = config.length // 4
    ends, windows = cut(start, steps, WindowShape(config.length, hop))
    last = [labels[end - start - hop : end - start] for end in ends]
    state = [np.bincount(tail).argmax() for tail in last]
    share = [
        (labels[end - start - config.length : end - start] == one).mean() for end, one in zip(ends, state, strict=True)
    ]
    settled = np.array(share) >= 0.5
    return windows[settled], [states[one] for one, kept in zip(state, settled, strict=True) if kept]


def test_the_bundles_fit_into_six_megabytes() -> None:
    """A third of it are the TRAIN segments that experts are told by, a quarter is the picture of them."""
    size = sum(file.stat().st_size for file in BUNDLES.rglob("*") if file.is_file())
    assert 0 < size < 6 * MEGABYTE


@pytest.mark.slow
@pytest.mark.parametrize("kind", KIND_NAMES)
def test_a_shipped_bundle_does_on_new_individuals_what_its_card_says(kind: str) -> None:
    predictor = Predictor.load(BUNDLES / kind, threads=1)
    assert predictor.config.channels == KINDS[kind].channels
    manifest = json.loads((BUNDLES / kind / "manifest.json").read_text())
    promised = min(manifest["metrics"][part]["accuracy_interval"][0] for part in ("test", "out_of_fold"))
    right = total = 0
    for seed in range(900, 904):
        windows, states = windows_of(kind, seed, predictor.config)
        prediction = predictor.predict(*fill(windows, [FillRule("hold", 3)] * windows.shape[1]))
        found = [predictor.config.classes[label] for label in prediction.label]
        right += sum(one == other for one, other in zip(found, states, strict=True))
        total += len(states)
        assert prediction.residual.max() <= 1e-5 * max(1.0, np.abs(prediction.logits).max())
    # The interval speaks of windows; a few new individuals may differ by a little more than that.
    assert right / total >= promised - 0.02


@pytest.mark.slow
def test_a_demo_bundle_can_be_made_again_on_a_short_schedule(tmp_path: Path) -> None:
    made = agent("simulate", "recordings", "pump", "--out", str(tmp_path / "pump"), "--count", "4", "--samples", "4096")
    assert made.returncode == 0, made.stderr
    trained = agent(
        "train", "--data", f"recordings:{tmp_path / 'pump'}", "--config", "configs/training/pump.yaml",
        "--out", str(tmp_path / "bundle"), "--set", "experts.epochs=3", "--json",
    )  # fmt: skip
    assert trained.returncode == 0, trained.stderr
    assert agent("bundle", "verify", str(tmp_path / "bundle")).returncode == 0
    again, shipped = (Predictor.load(place, threads=1).config for place in (tmp_path / "bundle", BUNDLES / "pump"))
    for field in ("channels", "units", "classes", "period_ns", "length", "recipe"):
        assert getattr(again, field) == getattr(shipped, field)


@pytest.mark.slow
def test_the_demo_prints_explained_states_without_a_terminal_and_ends_by_itself(tmp_path: Path) -> None:
    plant = (
        (ROOT / "configs" / "demo.yaml").read_text().replace("bundles/", f"{BUNDLES}/").replace("speed: 5", "speed: 20")
    )
    (tmp_path / "demo.yaml").write_text(plant)
    shown = agent("run", "--config", "demo.yaml", "--for", "15s", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "→" in shown.stdout
    assert "score of" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert "windows; events:" in shown.stderr
    lines = (tmp_path / "out" / "demo" / "events.jsonl").read_text().splitlines()
    assert {json.loads(line)["data"]["asset"] for line in lines} >= {"pump-1", "gearbox-1", "patient-1"}
