"""Which recipe and profile to choose: accuracy, speed with explanation, and time to train, in one table.

Run it as `python -m tests.bench.bench_recipes [--data-dir DIR] [--sets A,B] [--out FILE]`. Speed is measured on windows
of 4 channels and 128 steps with the model trained on a synthetic set, one thread, CPU seconds, beside the dense oracle
of the paper's net in the same run.
"""

import argparse
import os
import platform
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anchormoe import AnchorMoEClassifier
from anchormoe.data.dataset import Split, load
from tests.bench.bench_paper import SETUPS, Problem, seconds

SPEED_SET = "synthetic:localized"
SETS = ("uea:BasicMotions", "uea:JapaneseVowels", SPEED_SET)
PROFILES = ("fast", "balanced", "accurate")
CHOICES = [("paper", "balanced"), *((recipe, each) for recipe in ("kernel", "experts", "joint") for each in PROFILES)]
TRAINED_ON = 300
"""Cases of the synthetic set: enough for its speed and a fair figure, and twelve trainings stay bearable."""


@dataclass(frozen=True, slots=True)
class Row:
    recipe: str
    profile: str
    accuracy: dict[str, float]
    trained_s: float
    alone: float
    together: float


def part_of(split: Split, most: int) -> tuple[Any, Any]:
    """At most `most` cases of TRAIN, the first of each class in turn."""
    train = split.train
    order = np.argsort(np.argsort(train.y, kind="stable") % max(len(train.y) // most, 1), kind="stable")[:most]
    return train.cases.subset(np.sort(order)), train.y[np.sort(order)]


def arrays(cases: Any) -> list[np.ndarray]:
    """Cases as people hand them over: NaN where something is missing, each with its own length."""
    raw = np.where(cases.mask, cases.x, np.nan)
    return [case[:, :length] for case, length in zip(raw, cases.lengths, strict=True)]


def measure(recipe: str, profile: str, splits: dict[str, Split]) -> Row:
    accuracy, trained_s, speeds = {}, 0.0, (0.0, 0.0)
    for name, split in splits.items():
        cases, y = part_of(split, TRAINED_ON)
        began = time.process_time()
        model = AnchorMoEClassifier(recipe=recipe, profile=profile, random_state=0).fit(arrays(cases), y)
        trained_s += time.process_time() - began
        accuracy[name] = float(np.mean(model.predict(arrays(split.test.cases)) == split.test.y))
        if name == SPEED_SET:
            speeds = (windows_per_s(model, 1), windows_per_s(model, 64))
    return Row(recipe, profile, accuracy, trained_s, *speeds)


def windows_per_s(model: AnchorMoEClassifier, batch: int) -> float:
    """Explained predictions of one batch, best of several."""
    windows = np.random.default_rng(1).normal(size=(batch, 4, 128)).astype(np.float32)
    mask = np.ones(windows.shape, bool)
    return batch / seconds(lambda: model.predictor_.predict(windows, mask), budget_s=1.0)[0]


def oracle_per_s(batch: int) -> float:
    config, steps = SETUPS["D4 T128 d128 M4 K2 16/8"]
    return batch / seconds(Problem.of(config, steps, batch).dense, budget_s=1.0)[0]


def table(rows: list[Row], names: list[str], oracle: tuple[float, float]) -> list[str]:
    head = ["recipe", "profile", *(name.split(":")[1] for name in names)]
    head += ["train s", "windows/s (1)", "windows/s (64)", "× oracle (64)"]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |"]
    for row in rows:
        cells = [row.recipe, row.profile, *(f"{row.accuracy[name]:.3f}" for name in names)]
        cells += [
            f"{row.trained_s:.0f}",
            f"{row.alone:,.0f}",
            f"{row.together:,.0f}",
            f"{row.together / oracle[1]:.2f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    told = f"Dense oracle of the paper's net (d128 M4 K2, 16/8): {oracle[0]:,.0f} and {oracle[1]:,.0f} windows/s."
    return [*lines, "", told]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("ANCHORMOE_DATA"))
    parser.add_argument("--sets", default=",".join(SETS), help="three sets; the synthetic one gives the speed")
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    names = wanted.sets.split(",")
    splits = {name: load(name, data_dir=wanted.data_dir, config=None, seed=0) for name in names}
    oracle = oracle_per_s(1), oracle_per_s(64)
    rows = []
    for recipe, profile in CHOICES:
        rows.append(measure(recipe, profile, splits))
        print(rows[-1], flush=True)
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "numpy", "numba"))
    text = "\n".join(
        [
            "# Recipes and profiles",
            "",
            f"`python -m tests.bench.bench_recipes --sets {wanted.sets}`, {datetime.now(UTC):%Y-%m-%d}, "
            f"Python {platform.python_version()}, {versions}; one thread, CPU s; at most {TRAINED_ON} cases to train, "
            "seed 0, TEST read once. Windows/s are explained predictions at batch 1 and 64.",
            "",
            *table(rows, names, oracle),
            "",
        ]
    )
    print(text)
    if wanted.out:
        wanted.out.write_text(text)


if __name__ == "__main__":
    main()
