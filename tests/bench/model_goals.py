"""What explaining costs, of models trained on one synthetic set: beside the paper's dense net and beside logits alone.

`python -m tests.bench.model_goals [--out docs/results/bench-model-goals.md]`. The same measurement as
`tests.bench.bench_recipes`, of the recipes that have goals.
"""

import argparse
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import torch

from anchormoe.data.loading import load_dataset
from tests.bench.bench_recipes import SPEED_SET, Measured, measured

_ORACLE_GOALS = {("joint", "balanced"): 1.0, ("joint", "fast"): 3.0}
_EXPLAINING = (("kernel", "fast"), ("kernel", "balanced"))
_EXPLAINING_GOAL = 0.15


def lines(rows: list[Measured]) -> Iterator[str]:
    for row in rows:
        name = f"`{row.recipe} {row.profile}`"
        goal = _ORACLE_GOALS.get((row.recipe, row.profile))
        if goal is not None and row.alone_ratio is not None and row.together_ratio is not None:
            met = min(row.alone_ratio, row.together_ratio) >= goal
            yield (
                f"- {name}: {row.alone_ratio:.2f}× the dense oracle at batch 1, {row.together_ratio:.2f}× at batch 64 "
                f"(asked for: {goal:g}×), {_verdict(met)}"
            )
        if row.explaining is not None and (row.recipe, row.profile) in _EXPLAINING:
            yield (
                f"- {name}: evidence by channel costs {row.explaining:.0%} more than logits alone "
                f"(asked for: {_EXPLAINING_GOAL:.0%} at most), {_verdict(row.explaining <= _EXPLAINING_GOAL)}"
            )


def _verdict(met: bool) -> str:
    return "met" if met else "not met"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    split = load_dataset(SPEED_SET, seed=0)
    rows = [measured(*wanted, SPEED_SET, split) for wanted in (*_ORACLE_GOALS, *_EXPLAINING)]
    page = "\n".join(
        [
            "# What explaining costs",
            "",
            f"`python -m tests.bench.model_goals`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python "
            f"{platform.python_version()}; one thread, processor seconds, windows of 4 channels and 128 steps. The "
            "oracle is the dense net of the paper (d128 M4 K2), which takes turns with each model; a joint model is "
            "timed with both of its sources.",
            "",
            *lines(rows),
            "",
        ]
    )
    print(page)
    if given.out:
        given.out.write_text(page)


if __name__ == "__main__":
    main()
