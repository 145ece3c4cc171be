"""A plant of waves: two tiny trained bundles that disagree about slow and fast, and records to judge."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from anchormoe import AnchorMoEClassifier
from connectors.records import Record

STEPS, HOP, PERIOD_MS = 32, 8, 100
ASSETS = ("wave-0", "wave-1")
_STRETCH = 80
_SPEEDS = (0.3, 0.9)


def train(directory: Path, *, version: str, turned: bool = False) -> str:
    """A bundle with its digest; `turned` calls slow what is fast."""
    rng, count = np.random.default_rng(0), 24
    fast = np.arange(count) % 2
    phase = rng.uniform(0, 6, (count, 1))
    signal = np.sin(np.array(_SPEEDS)[fast][:, None] * np.arange(STEPS) + phase)
    noise = rng.normal(size=(2, count, STEPS))
    names = np.array(["fast", "slow"] if turned else ["slow", "fast"])
    model = AnchorMoEClassifier(recipe="kernel", profile="fast", alignment="sliding", random_state=0)
    model.fit(np.stack([signal + 0.1 * noise[0], noise[1]], axis=1), names[fast])
    return model.save(directory, name="waves", version=version)


def group(bundle: Path) -> dict[str, Any]:
    """As plant.yaml has it."""
    return {
        "name": "waves",
        "assets": ["wave-*"],
        "model": {"bundle": str(bundle)},
        "period": f"{PERIOD_MS}ms",
        "window": {"hop": HOP, "lateness": 4},
        "max_assets": 8,
    }


def records(start_ms: int, steps: range) -> Sequence[tuple[int, Record]]:
    """(partition, record) for each step of each asset, slow and fast in turns; the same for the same step."""
    return list(_records(start_ms, steps))


def _records(start_ms: int, steps: range) -> Iterator[tuple[int, Record]]:
    for step in steps:
        for partition, asset in enumerate(ASSETS):
            at = start_ms + step * PERIOD_MS
            value = orjson.dumps({"ts": at, "channel_0": _signal(step, partition), "channel_1": _noise(step)})
            yield partition, Record(step, at, asset.encode(), value)


def _signal(step: int, asset: int) -> float:
    speed = _SPEEDS[(step // _STRETCH + asset) % 2]
    return float(np.sin(speed * step) + 0.1 * _noise(step + 7))


def _noise(step: int) -> float:
    drawn: NDArray[np.float64] = np.random.default_rng(step).normal(size=1)
    return float(drawn[0])
