"""How fast the paper's net is on one thread: serving and training against the dense oracle, time against patches.

Run it as `python -m tests.bench.bench_paper [--out FILE]`. Net and oracle take turns, so that other work on the machine
slows down both. Times are CPU seconds, the best of several turns.
"""

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.loop import Examples, LoopConfig, train_network
from anchormoe.paper.losses import LossWeights, objective
from anchormoe.paper.net import PaperNet
from anchormoe.paper.output import Output
from anchormoe.paper.serving import ServingNet
from tests.support import oracle

SETUPS = {
    "D4 T128 d128 M4 K2 16/8": (ModelConfig(4, 3, 16, 8, width=128, experts=4, top_k=2, dropout=0.0), 128),
    "D3 T315 d160 M8 K2 16/4": (ModelConfig(3, 8, 16, 4, width=160, experts=8, top_k=2, dropout=0.0), 315),
}
BATCHES = (1, 64)
TRAINED = 256
"""Windows in the epoch that is timed: enough steps to make the fixed costs of an epoch negligible."""
RUNS = 8
"""Runs of each call per turn."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A net and windows (B, C, T) without missing steps."""

    net: PaperNet
    x: Tensor
    mask: Tensor
    valid: Tensor

    @classmethod
    def of(cls, config: ModelConfig, steps: int, batch: int) -> "Problem":
        torch.manual_seed(0)
        net = PaperNet(config).eval()
        x = torch.randn(batch, config.channels, steps)
        mask = torch.ones_like(x, dtype=torch.bool)
        return cls(net, x, mask, oracle.patch_validity(mask, config))

    def dense(self) -> Output[Tensor]:
        with torch.inference_mode():
            return oracle.forward(self.net, self.x, self.mask, self.valid)


def seconds(*calls: Callable[[], object], budget_s: float = 3.0) -> list[float]:
    """The best CPU time of each call; they take turns until the budget is used up, with several runs per turn.

    The first run of a turn finds the caches full of the previous call's data and code. With only one run per turn, a
    call that follows a similar one would seem faster.
    """
    best = [float("inf")] * len(calls)
    end = time.monotonic() + budget_s
    rounds = 0
    while time.monotonic() < end or rounds < 5:
        for index, call in enumerate(calls):
            best[index] = min(best[index], *(_seconds(call) for _ in range(RUNS)))
        rounds += 1
    return best


def _seconds(call: Callable[[], object]) -> float:
    start = time.thread_time()
    call()
    return time.thread_time() - start


def window_flops(config: ModelConfig, steps: int, *, fused: bool) -> float:
    """Of one window by the equations with K experts per patch, or with fused weights as in serving."""
    C, L, D, M, K, Y = (
        config.channels,
        config.patch_length,
        config.width,
        config.experts,
        config.top_k,
        config.classes,
    )
    views = C * L * D + D * D + 2 * C * L * config.bins + C * config.band_count * D + 2 * D
    routing = D * M if fused else D * D + D * M
    experts = K * (D * D + D * (Y + 1)) if fused else K * (2 * D * D + D * (Y + 1))
    return 2.0 * config.grid.count(steps) * (views + routing + experts)


def matmul_call(config: ModelConfig, steps: int, batch: int) -> tuple[Callable[[], object], float]:
    """A matrix product of this net's usual shape, and its FLOPs."""
    rows, D = batch * config.grid.count(steps, 8), config.width
    a, b = torch.randn(rows, D), torch.randn(D, D)
    return lambda: a @ b, 2.0 * rows * D * D


def bench_serving(name: str, config: ModelConfig, steps: int, batch: int) -> str:
    problem = Problem.of(config, steps, batch)
    serving = ServingNet(problem.net)
    product, product_flops = matmul_call(config, steps, batch)
    fast, dense, matmul = seconds(lambda: serving.forward(problem.x, problem.mask), problem.dense, product)
    speed = product_flops / matmul
    sparse_limit, fused_limit = (speed / window_flops(config, steps, fused=fused) for fused in (False, True))
    return row(
        name, batch, f"{batch / fast:,.0f}", f"{batch / dense:,.0f}", f"{dense / fast:.1f}", f"{speed / 1e9:.0f}",
        f"{sparse_limit:,.0f}", f"{batch / fast / sparse_limit:.0%}", f"{fused_limit:,.0f}",
    )  # fmt: skip


def bench_training(name: str, config: ModelConfig, steps: int) -> str:
    problem = Problem.of(config, steps, TRAINED)
    y = torch.arange(TRAINED) % config.classes
    examples = Examples(problem.x, problem.mask, y, torch.ones(TRAINED))
    loop = LoopConfig(epochs=1, batch_size=64, learning_rate=1e-3, weight_decay=0.01, seed=0)
    weights = LossWeights(0.05, 0.05)

    def fast_loss(model: nn.Module, batch: Examples, share: float) -> Tensor:
        return objective(model(batch.x, batch.mask), batch.y, weights)

    def dense_loss(model: nn.Module, batch: Examples, share: float) -> Tensor:
        assert isinstance(model, PaperNet)
        return objective(oracle.forward(model, batch.x, batch.mask, problem.valid[:64]), batch.y, weights)

    fast, dense = seconds(
        lambda: train_network(problem.net, examples, loop, loss=fast_loss),
        lambda: train_network(problem.net, examples, loop, loss=dense_loss),
    )
    return row(name, f"{TRAINED / fast:,.0f}", f"{TRAINED / dense:,.0f}", f"{dense / fast:.1f}")


def bench_patches() -> str:
    """Log-log slope of time against the number of patches; 1 is linear."""
    config = SETUPS["D4 T128 d128 M4 K2 16/8"][0]
    counts = (128, 256, 512, 1024)
    problems = [Problem.of(config, 8 * count + 8, 8) for count in counts]
    serving = ServingNet(problems[0].net)
    times = seconds(*(lambda p=problem: serving.forward(p.x, p.mask) for problem in problems))
    slope = float(np.polyfit(np.log(counts), np.log(times), 1)[0])
    each = ", ".join(f"{count}: {1e3 * t:.1f} ms" for count, t in zip(counts, times, strict=True))
    return f"Time against patches, batch 8: {each}; log-log slope {slope:.2f} (1 is linear)."


def row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def report(note: str) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "numpy"))
    serving = ["net", "batch", "serving, windows/s", "oracle", "ratio", "GFLOP/s of a product"]
    serving += ["limit by sparse FLOPs", "reached", "limit by fused FLOPs"]
    training = ["net", "training, windows/s", "oracle", "ratio"]
    return "\n".join(
        [
            "# The paper's net: serving and training against the dense oracle",
            "",
            f"`python -m tests.bench.bench_paper`, {datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, "
            f"{versions}; one thread, CPU seconds, best of several turns; every window is explained. {note}".rstrip(),
            "",
            *(row(*serving), row(*["---"] * len(serving))),
            *(bench_serving(name, *SETUPS[name], batch) for name in SETUPS for batch in BATCHES),
            "",
            *(row(*training), row(*["---"] * len(training))),
            *(bench_training(name, *SETUPS[name]) for name in SETUPS),
            "",
            bench_patches(),
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--note", default="", help="what else a reader should know, such as how busy the machine was")
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    text = report(wanted.note)
    print(text)
    if wanted.out:
        wanted.out.write_text(text)


if __name__ == "__main__":
    main()
