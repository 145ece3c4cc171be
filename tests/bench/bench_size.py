"""What the largest data sets cost: time and peak memory of training on random data of their shape, beside what is said.

Run it as `python -m tests.bench.bench_size [--only NAME …] [--ledger FILE] [--out FILE]`. Every row is a process of its
own, so that its peak is its own; rows of earlier runs stay in the ledger, and the page shows the last of each.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from anchormoe.cases import Cases
from anchormoe.progress import Progress
from anchormoe.recipes.memory import estimate_peak_bytes
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.recipes.train import train_bundle
from tests.support.data_shapes import Shape, rehearsal

SHAPES = {
    "small": Shape(train=180, test=180, channels=24, steps=51, classes=6),
    "thousands of cases": Shape(train=5_000, test=500, channels=12, steps=200, classes=5),
    "a hundred channels": Shape(train=300, test=100, channels=100, steps=1_000, classes=5),
    "many channels": Shape(train=60, test=40, channels=1_400, steps=270, classes=5),
    "long": Shape(train=128, test=64, channels=6, steps=18_000, classes=5),
    "many cases": Shape(train=50_000, test=1_000, channels=4, steps=24, classes=5),
}
RECIPES = (("joint", "balanced"), ("paper", "balanced"))
GIGABYTE = 1 << 30


def trained(name: str, recipe: str, profile: str) -> dict[str, Any]:
    """One training in this process, judged on TEST; prints its stages on stderr."""
    split = rehearsal(name, SHAPES[name], most_cases=SHAPES[name].train)
    settings = RecipeSettings(recipe=recipe, profile=profile)  # type: ignore[arg-type]  # words of RECIPES
    began = time.perf_counter(), time.process_time()
    run = train_bundle(split, settings, progress=told)
    return {
        "name": name, "recipe": recipe, "profile": profile,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIGABYTE,
        "seconds": time.perf_counter() - began[0], "cpu_seconds": time.process_time() - began[1],
        "accuracy": run.best.figures["accuracy"], "date": datetime.now(UTC).date().isoformat(),
    }  # fmt: skip


def announced_gb(name: str, recipe: str, profile: str) -> float:
    """What `train` says today; data of that shape are not needed for it."""
    shape, settings = SHAPES[name], RecipeSettings(recipe=recipe, profile=profile)  # type: ignore[arg-type]
    train, test = (_hollow(count, shape) for count in (shape.train, shape.test))
    return estimate_peak_bytes(train, settings, test=test) / GIGABYTE


def _hollow(count: int, shape: Shape) -> Cases:
    size = (count, shape.channels, shape.steps)
    x, mask = np.broadcast_to(np.float32(0), size), np.broadcast_to(np.True_, size)
    return Cases(x, mask, np.full(count, shape.steps, np.int64))


def told(progress: Progress) -> None:
    if progress.done >= progress.total:
        print(f"  {progress.stage}: {progress.done} of {progress.total}", file=sys.stderr, flush=True)


def measured(name: str, recipe: str, profile: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.bench_size", "--child", name, recipe, profile]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return dict(json.loads(done.stdout))


INTRODUCTION = """# The largest data sets

Training on random data of the largest shapes that are supported, and of some between, by
`python -m tests.bench.bench_size --out docs/results/size.md`. "said" is what `train` announces before it starts, "peak"
the largest resident memory of the whole process, TEST included. Other work ran on the machine ({machine}, {cores}
cores, one thread each): the CPU seconds are the fairer figure. The data are noise in which one channel of each class
lies higher: accuracy shows that something was learnt, not how good a recipe is.

| data | cases × channels × steps | recipe | said | peak | CPU s | s | TEST accuracy | date |
|---|---|---|---|---|---|---|---|---|
"""


def page(rows: list[dict[str, Any]]) -> str:
    last = {(row["name"], row["recipe"], row["profile"]): row for row in rows}
    wanted = [(name, *choice) for name in SHAPES for choice in RECIPES]
    lines = [_line(last[key]) for key in wanted if key in last]
    return INTRODUCTION.format(machine=platform.machine(), cores=os.cpu_count()) + "\n".join(lines) + "\n"


def _line(row: dict[str, Any]) -> str:
    shape, said = SHAPES[row["name"]], announced_gb(row["name"], row["recipe"], row["profile"])
    return (
        f"| {row['name']} | {shape.train:,} × {shape.channels:,} × {shape.steps:,} | {row['recipe']} {row['profile']} "
        f"| {said:.2f} GB | {row['peak_gb']:.2f} GB | {row['cpu_seconds']:.0f} | {row['seconds']:.0f} "
        f"| {row['accuracy']:.2f} | {row['date']} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--recipes", nargs="*", choices=[recipe for recipe, _ in RECIPES], default=["joint", "paper"])
    parser.add_argument("--ledger", type=Path, default=Path("out/size.jsonl"))
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--child", nargs=3, default=None, help=argparse.SUPPRESS)
    wishes = parser.parse_args()
    if wishes.child:
        print(json.dumps(trained(*wishes.child)))
        return
    wishes.ledger.parent.mkdir(parents=True, exist_ok=True)
    for name in wishes.only:
        for recipe, profile in RECIPES:
            if recipe in wishes.recipes:
                print(f"{name}, {recipe} {profile}", file=sys.stderr, flush=True)
                with wishes.ledger.open("a") as ledger:
                    ledger.write(json.dumps(measured(name, recipe, profile)) + "\n")
    text = page([json.loads(line) for line in wishes.ledger.read_text().splitlines()])
    print(text)
    if wishes.out:
        wishes.out.write_text(text)


if __name__ == "__main__":
    main()
