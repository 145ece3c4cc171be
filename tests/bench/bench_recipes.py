"""Which recipe and profile to choose: accuracy, speed with explanation, and time to train, in one table.

Run it as `python -m tests.bench.bench_recipes [--data-dir DIR] [--sets A,B] [--only joint] [--rows FILE] [--out FILE]`.
Speed is measured on windows of 4 channels and 128 steps with the model trained on a synthetic set, one thread, CPU
seconds; the dense oracle of the paper's net takes turns with each model, so a busy machine slows down both. With --rows
an interrupted run resumes where it stopped.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anchormoe import AnchorMoEClassifier
from anchormoe.cases import Cases
from anchormoe.data.dataset import Split
from anchormoe.data.loading import load_dataset
from tests.bench.bench_paper import SETUPS, Problem, seconds

SPEED_SET = "synthetic:localized"
SETS = (SPEED_SET, "uea:BasicMotions", "uea:JapaneseVowels")
PROFILES = ("fast", "balanced", "accurate")
CHOICES = [("paper", "balanced"), *((recipe, each) for recipe in ("kernel", "experts", "joint") for each in PROFILES)]
TRAINED_ON = 200
"""At most so many cases per set: enough for the speed and a fair accuracy, and thirty trainings take minutes."""
ORACLE = ("oracle", "dense")


@dataclass(frozen=True, slots=True)
class Measured:
    """One recipe and profile on one set; windows/s at batch 1 and 64 on the set that gives the speed."""

    recipe: str
    profile: str
    data: str
    accuracy: float | None = None
    trained_s: float | None = None
    alone: float | None = None
    together: float | None = None
    explaining: float | None = None
    """Time for the evidence as a share of the time for the logits alone, at batch 64; of a single source"""
    alone_ratio: float | None = None
    """Speed as a multiple of the oracle's, which takes turns with the model, at batch 1"""
    together_ratio: float | None = None


def part_of(split: Split, most: int) -> tuple[Any, Any]:
    """At most `most` cases of TRAIN, the first of each class in turn."""
    train = split.train
    in_class = np.array([np.sum(train.y[:at] == label) for at, label in enumerate(train.y)])
    order = np.argsort(in_class, kind="stable")[:most]
    return train.cases.subset(np.sort(order)), train.y[np.sort(order)]


def arrays(cases: Any) -> list[np.ndarray]:
    """Cases as users pass them: NaN where something is missing, each with its own length."""
    raw = np.where(cases.mask, cases.x, np.nan)
    return [case[:, :length] for case, length in zip(raw, cases.lengths, strict=True)]


def measured(recipe: str, profile: str, data: str, split: Split) -> Measured:
    cases, y = part_of(split, TRAINED_ON)
    began = time.process_time()
    model = AnchorMoEClassifier(recipe=recipe, profile=profile, random_state=0).fit(arrays(cases), y)
    trained_s = time.process_time() - began
    accuracy = float(np.mean(model.predict(arrays(split.test.cases)) == split.test.y))
    found = Measured(recipe, profile, data, accuracy, trained_s)
    if data != SPEED_SET:
        return found
    give_both_sources(model, profile, arrays(cases), y)
    (alone, alone_ratio), (together, together_ratio) = (windows_per_s(model, batch) for batch in (1, 64))
    return replace(
        found, alone=alone, together=together, explaining=explaining(model), alone_ratio=alone_ratio,
        together_ratio=together_ratio,
    )  # fmt: skip


def give_both_sources(model: AnchorMoEClassifier, profile: str, cases: list[np.ndarray], y: Any) -> None:
    """Times a joint model with both kernel and experts, even if the blend of this set left one out."""
    inner = model.predictor_.model
    there = {part.name for part in inner.parts}
    if model.recipe != "joint" or len(there) == 2:
        return
    absent = "kernel" if "experts" in there else "experts"
    other = AnchorMoEClassifier(recipe=absent, profile=profile, random_state=0).fit(cases, y)
    parts = (*inner.parts, *other.predictor_.model.parts)
    model.predictor_.model = replace(inner, parts=tuple(replace(part, weight=0.5) for part in parts))


def explaining(model: AnchorMoEClassifier) -> float | None:
    """None if the model has several sources, or one that cannot compute logits alone."""
    inner = model.predictor_.model
    source: Any = inner.parts[0].source
    if len(inner.parts) > 1 or not hasattr(source, "logits"):
        return None
    windows = np.random.default_rng(1).normal(size=(64, 4, 128)).astype(np.float32)
    cases = inner.normalizer.apply(Cases.from_windows(windows, np.ones(windows.shape, bool)))
    forward, logits = seconds(lambda: source.forward(cases), lambda: source.logits(cases), budget_s=1.0)
    return forward / logits - 1


def windows_per_s(model: AnchorMoEClassifier, batch: int) -> tuple[float, float]:
    """Explained predictions per second, best of several batches, and their ratio to the oracle's speed."""
    windows = np.random.default_rng(1).normal(size=(batch, 4, 128)).astype(np.float32)
    mask = np.ones(windows.shape, bool)
    model_s, oracle_s = seconds(lambda: model.predictor_.predict(windows, mask), dense(batch), budget_s=2.0)
    return batch / model_s, oracle_s / model_s


def dense(batch: int) -> Callable[[], object]:
    """A call of the oracle on one batch."""
    return Problem.of(*SETUPS["D4 T128 d128 M4 K2 16/8"], batch).dense


def oracle() -> Measured:
    alone, together = (batch / seconds(dense(batch), budget_s=1.0)[0] for batch in (1, 64))
    return Measured(*ORACLE, SPEED_SET, alone=alone, together=together, alone_ratio=1.0, together_ratio=1.0)


def table(rows: list[Measured], names: list[str]) -> list[str]:
    head = ["recipe", "profile", *(name.split(":")[1] for name in names), "train s"]
    head += ["windows/s (1)", "× oracle", "windows/s (64)", "× oracle", "explaining"]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |"]
    for recipe, profile in [*CHOICES, ORACLE]:
        own = {row.data: row for row in rows if (row.recipe, row.profile) == (recipe, profile)}
        if own:
            lines.append("| " + " | ".join([recipe, profile, *cells(own, names)]) + " |")
    return lines


def cells(own: dict[str, Measured], names: list[str]) -> list[str]:
    """Accuracies, total training time, speeds and their ratios to the oracle's."""
    found = [_shown(own[name].accuracy if name in own else None, ".3f") for name in names]
    found.append(_shown(sum(row.trained_s or 0.0 for row in own.values()) or None, ".0f"))
    fast = own.get(SPEED_SET, Measured(*ORACLE, SPEED_SET))
    found += [_shown(fast.alone, ",.0f"), _shown(fast.alone_ratio, ".2f")]
    found += [_shown(fast.together, ",.0f"), _shown(fast.together_ratio, ".2f")]
    return [*found, _shown(fast.explaining, "+.0%")]


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def stored(file: Path | None) -> list[Measured]:
    if file is None or not file.exists():
        return []
    return [Measured(**json.loads(line)) for line in file.read_text().splitlines()]


def report(rows: list[Measured], names: list[str], note: str) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "numpy", "numba"))
    about = (
        f"`python -m tests.bench.bench_recipes --sets {','.join(names)}`, {datetime.now(UTC):%Y-%m-%d}, Python "
        f"{platform.python_version()}, {versions}; one thread, CPU seconds; at most {TRAINED_ON} cases of TRAIN per "
        "set, seed 0, TEST read once. Windows/s are explained predictions at batch 1 and 64 (4 channels, 128 steps); "
        "the oracle is the dense net of the paper (d128 M4 K2, patches 16/8), which explains too and takes turns with "
        "each model; a joint model is timed with both of its sources, also where the blend of this set left one out. "
        "Train s is the sum over the sets; explaining is the extra time for evidence, relative to the time for the "
        "logits of a source alone, at batch 64."
    )
    return "\n".join(["# Recipes and profiles", "", f"{about} {note}".rstrip(), "", *table(rows, names), ""])


def missing(rows: list[Measured], name: str, only: str) -> list[tuple[str, str]]:
    """Recipes and profiles not yet measured on a set; the oracle belongs to the set that gives the speed."""
    wanted = [choice for choice in CHOICES if not only or choice[0] in only.split(",")]
    there = {(row.recipe, row.profile) for row in rows if row.data == name}
    return [choice for choice in ([ORACLE] if name == SPEED_SET else []) + wanted if choice not in there]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("ANCHORMOE_DATA"))
    parser.add_argument("--sets", default=",".join(SETS), help="the synthetic one gives the speed")
    parser.add_argument("--only", default="", help="recipes, all without it")
    parser.add_argument("--rows", type=Path, help="JSON lines of finished measurements, which are not repeated")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--note", default="", help="what else a reader should know, such as how busy the machine was")
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    rows = stored(wanted.rows)
    names = wanted.sets.split(",")
    for name in names:
        split = load_dataset(name, data_dir=wanted.data_dir, config=None, seed=0)
        for recipe, profile in missing(rows, name, wanted.only):
            rows.append(oracle() if recipe == ORACLE[0] else measured(recipe, profile, name, split))
            print(rows[-1], flush=True)
            if wanted.rows:
                wanted.rows.open("a").write(json.dumps(asdict(rows[-1])) + "\n")
    print(report(rows, names, wanted.note))
    if wanted.out:
        wanted.out.write_text(report(rows, names, wanted.note))


if __name__ == "__main__":
    main()
