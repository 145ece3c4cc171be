"""Kernel evidence alone: accuracy, cancellation over patches and over patches × channels, and the share of context.

Run it as `python -m tests.bench.bench_kernel_evidence --rows FILE [--data-dir DIR] [--sets A,B] [--test] [--label A]`
Without --test nothing but TRAIN is read: each of four folds is predicted by a fit on the others, so variants can be
compared while they are designed. With --rows an interrupted run resumes where it stopped; the label tells variants
apart.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.data.dataset import Dataset, Split
from anchormoe.data.loading import load_dataset
from anchormoe.evidence import Patching, patch_grid
from anchormoe.folds import make_folds
from anchormoe.kernels.fit import fit_kernel
from anchormoe.kernels.settings import KernelSettings
from anchormoe.kernels.source import KernelSource
from anchormoe.model.normalizer import Normalizer
from anchormoe.model.projection import Projection, step_grid
from anchormoe.training.task import FitTask

SETS = (
    "uea:BasicMotions",
    "uea:RacketSports",
    "uea:NATOPS",
    "uea:JapaneseVowels",
    "uea:UWaveGestureLibrary",
    "uea:FingerMovements",
    "uea:ArticularyWordRecognition",
    "uea:Cricket",
    "uea:GunPoint",
    "uea:ArrowHead",
    "uea:ItalyPowerDemand",
    "uea:OSULeaf",
)
FOLDS = 4
MOST_CASES = 600
"""Cases explained at a time."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One set, seed and variant; cancellation of the predicted class as median and 90 % quantile."""

    data: str
    label: str
    seed: int
    part: str
    accuracy: float
    patches: tuple[float, float]
    cells: tuple[float, float]
    context: float
    """Median share of the context in the sum of all absolute contributions"""

    @property
    def key(self) -> tuple[str, str, int, str]:
        return self.data, self.label, self.seed, self.part


@dataclass(frozen=True, slots=True)
class _Explained:
    """Per case: whether it is right, cancellation over patches and over cells, the share of context."""

    right: Float64
    patches: Float64
    cells: Float64
    context: Float64


def explain(train: Cases, y: Int64, test: Cases, labels: Int64, seed: int, settings: KernelSettings) -> _Explained:
    """Fits on `train`, explains `test`."""
    normalizer = Normalizer.fit(train)
    source = fit_kernel(FitTask(normalizer.apply(train), y, int(y.max()) + 1, seed=seed), settings).source
    found = [
        _explain_some(source, normalizer.apply(test.subset(slice(first, first + MOST_CASES))))
        for first in range(0, len(test), MOST_CASES)
    ]
    logits, patches, cells, context = (np.concatenate(each) for each in zip(*found, strict=True))
    return _Explained((logits.argmax(axis=1) == labels).astype(np.float64), patches, cells, context)


def _explain_some(source: KernelSource, cases: Cases) -> tuple[Float64, Float64, Float64, Float64]:
    output = source.forward(cases)
    chosen = output.logits.argmax(axis=1)
    values = output.evidence.values
    values = values if values.ndim == 4 else values[:, :, None]
    own = np.take_along_axis(values, chosen[:, None, None, None], axis=3)[..., 0]  # (B, T, K)
    patching = Patching.for_steps(cases.steps)
    grid = patch_grid(cases.steps, patching.length, patching.stride)
    cells = Projection(step_grid(cases.steps), grid, cases.step_mask).sums(own)  # (B, P, K)
    context = np.abs(np.take_along_axis(output.context, chosen[:, None], axis=1)[:, 0])
    logit = np.abs(np.take_along_axis(output.logits, chosen[:, None], axis=1)[:, 0])
    over_patches = context + np.abs(cells.sum(axis=2)).sum(axis=1)
    over_cells = context + np.abs(cells).sum(axis=(1, 2))
    return output.logits, over_patches / logit, over_cells / logit, context / over_patches


def measure(split: Split, seed: int, label: str, test: bool, settings: KernelSettings) -> Measured:
    """On TEST, or on folds of TRAIN."""
    parts = [
        explain(one.cases, one.y, other.cases, other.y, seed, settings)
        for one, other in ([(split.train, split.test)] if test else _folds(split.train, seed))
    ]
    right, patches, cells, context = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("right", "patches", "cells", "context")
    )
    part = "test" if test else "folds"
    return Measured(
        split.train.name,
        label,
        seed,
        part,
        float(right.mean()),
        _spread(patches),
        _spread(cells),
        float(np.median(context)),
    )


def _spread(values: Float64) -> tuple[float, float]:
    return float(np.median(values)), float(np.quantile(values, 0.9))


def _folds(train: Dataset, seed: int) -> Iterator[tuple[Dataset, Dataset]]:
    folds = make_folds(train.y, folds=FOLDS, seed=seed)
    for outside, inside in zip(folds.held_out, folds.trained, strict=True):
        yield train.subset(np.flatnonzero(inside)), train.subset(np.flatnonzero(outside))


def _row(one: Measured) -> str:
    return (
        f"{one.data:26} {one.label:16} {one.part:5} seed {one.seed}  accuracy {one.accuracy:.3f}  "
        f"cancellation: patches {one.patches[0]:7.2f} / {one.patches[1]:7.2f}, "
        f"cells {one.cells[0]:7.2f} / {one.cells[1]:7.2f}  context {one.context:.3f}"
    )


def _read(path: Path) -> dict[tuple[str, str, int, str], Measured]:
    if not path.exists():
        return {}
    found = [Measured(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines() if line]
    return {one.key: one for one in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", default="0", help="numbers, separated by commas")
    parser.add_argument("--label", default="now", help="name of the variant in the table")
    parser.add_argument("--profile", default="balanced", choices=("fast", "balanced", "accurate"))
    parser.add_argument("--test", action="store_true", help="read TEST, once the variant is chosen")
    parser.add_argument("--rows", type=Path, required=True, help="finished rows, one JSON line each")
    given = parser.parse_args()
    rows = _read(given.rows)
    for name in given.sets.split(","):
        split = load_dataset(name, data_dir=given.data_dir)
        for seed in map(int, given.seeds.split(",")):
            key = (split.train.name, given.label, seed, "test" if given.test else "folds")
            if key not in rows:
                rows[key] = measure(split, seed, given.label, given.test, KernelSettings(profile=given.profile))
                with given.rows.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(rows[key])) + "\n")
            print(_row(rows[key]), flush=True)


if __name__ == "__main__":
    main()
