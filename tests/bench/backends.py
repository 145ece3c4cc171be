"""What numba and its hand-written vector instructions gain over torch and over plain loops, per explained window.

Run it as `python -m tests.bench.backends [--out FILE] [--note TEXT]`. One process for each backend takes turns with the
others, so that other work on the machine slows down all of them. Times are CPU seconds, the best of several turns.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

BACKENDS = ("torch", "plain", "numba")
MODELS = ("kernel fast", "kernel balanced", "experts fast", "experts balanced")
BATCHES = (1, 64)
CHANNELS, STEPS, CLASSES = 4, 128, 3
TURNS = 6
SECONDS_PER_TURN = 0.5


def use_plain_loops() -> None:
    """Replaces the vector instructions, before anything is compiled that calls them."""
    import numba

    from anchormoe.simd import hydra, ppv, products, sums
    from tests.support import plain_loops

    compile_plain = numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
    sums.define_sum_taps = lambda taps: compile_plain(plain_loops.define_sum_taps(taps))
    hydra.define_pool_hydra = lambda *sizes: compile_plain(plain_loops.define_pool_hydra(*sizes))
    ppv.pool_ppv = compile_plain(plain_loops.pool_ppv)
    for name in ("product", "product_from_tokens", "exp", "sigmoid", "silu", "gelu", "pool_tokens"):
        setattr(products, name, compile_plain(getattr(plain_loops, name)))


def build_source(name: str) -> Any:
    """Untrained, but of the size of a trained one: the weights do not change the time."""
    kind, profile = name.split()
    return {"kernel": build_kernels, "experts": build_experts}[kind](profile)


def build_kernels(profile: Any) -> Any:
    import numpy as np

    from anchormoe.evidence import centred
    from anchormoe.kernels.bank import Readout
    from anchormoe.kernels.bank_factory import build_banks
    from anchormoe.kernels.quantized import quantize
    from anchormoe.kernels.settings import KernelSettings
    from anchormoe.kernels.source import KernelSource, Part

    rng = np.random.default_rng(0)
    banks = build_banks(quantize(some_windows(30)), KernelSettings(profile=profile), rng)
    readouts = [centred(rng.normal(size=(bank.n_features, CLASSES))) for bank in banks]
    parts = [Part.of(bank, Readout(np.zeros(len(own)), own)) for bank, own in zip(banks, readouts, strict=True)]
    return KernelSource(CHANNELS, np.zeros(CLASSES), tuple(parts))


def build_experts(profile: Any) -> Any:
    import torch

    from anchormoe.experts.geometry import Geometry, positions_for
    from anchormoe.experts.net import CommitteeNet
    from anchormoe.experts.settings import settings_for
    from anchormoe.experts.shape import NetShape
    from anchormoe.experts.source import Committee

    chosen = settings_for(profile)
    flags = (True,) * chosen.folds * chosen.kept
    geometry = Geometry.for_length(STEPS, positions=positions_for(CHANNELS, chosen.tokens))
    widths = (chosen.width, chosen.value_width)
    shape = NetShape(flags, flags, CHANNELS, (), CLASSES, *widths, chosen.experts, chosen.chosen, geometry)
    return Committee(shape, CommitteeNet(shape, torch.Generator().manual_seed(0)).weights())


def some_windows(count: int) -> Any:
    import numpy as np

    from anchormoe.cases import Cases

    x = np.random.default_rng(1).normal(size=(count, CHANNELS, STEPS)).astype(np.float32)
    return Cases.from_windows(x, np.ones(x.shape, bool))


def serve(backend: str) -> None:
    """Answers one line with another: {"model", "batch"} with the seconds of the first call and of the best one."""
    import torch

    torch.set_num_threads(1)
    if backend == "plain":
        use_plain_loops()
    sources: dict[str, Any] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        name, windows = asked["model"], some_windows(asked["batch"])
        source = sources.setdefault(name, build_source(name))
        if source.backend != ("torch" if backend == "torch" else "numba"):
            raise SystemExit(f"{name} runs on {source.backend}, not on {backend}")
        forward = partial(source.forward, windows)
        print(json.dumps({"first_s": seconds(forward), "best_s": best_seconds(forward)}), flush=True)


def best_seconds(call: Callable[[], object]) -> float:
    best, end = float("inf"), time.monotonic() + SECONDS_PER_TURN
    while time.monotonic() < end:
        best = min(best, *(seconds(call) for _ in range(3)))
    return best


def seconds(call: Callable[[], object]) -> float:
    start = time.thread_time()
    call()
    return time.thread_time() - start


class Measuring:
    """A process that computes by one backend, with an empty cache of compiled functions."""

    def __init__(self, backend: str, cache: Path) -> None:
        variables = {"ANCHORMOE_BACKEND": "torch" if backend == "torch" else "numba", "NUMBA_CACHE_DIR": str(cache)}
        command = [sys.executable, "-m", "tests.bench.backends", "--serve", backend]
        self._process = subprocess.Popen(
            command, env=os.environ | variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.first_s = 0.0
        """Of the first calls of all models, which compile."""

    def ask(self, model: str, batch: int) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"model": model, "batch": batch}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        self.first_s += max(0.0, answer["first_s"] - answer["best_s"])
        return float(answer["best_s"])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@dataclass(frozen=True, slots=True)
class Row:
    model: str
    batch: int
    best_s: dict[str, float]

    def __str__(self) -> str:
        micros = [f"{1e6 * self.best_s[backend] / self.batch:,.0f}" for backend in BACKENDS]
        gains = [f"{self.best_s[backend] / self.best_s['numba']:.1f}" for backend in ("torch", "plain")]
        return "| " + " | ".join([self.model, str(self.batch), *micros, *gains]) + " |"


def measure() -> tuple[list[Row], dict[str, float]]:
    """All rows, and the seconds that each backend spent on first calls."""
    with ExitStack() as stack:
        cache = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        processes = {backend: Measuring(backend, cache / backend) for backend in BACKENDS}
        for process in processes.values():
            stack.callback(process.close)
        rows = []
        for model in MODELS:
            for batch in BATCHES:
                turns = [{name: each.ask(model, batch) for name, each in processes.items()} for _ in range(TURNS)]
                rows.append(Row(model, batch, {name: min(turn[name] for turn in turns) for name in BACKENDS}))
                print(rows[-1], flush=True)
        return rows, {name: process.first_s for name, process in processes.items()}


def report(rows: list[Row], first_s: dict[str, float], note: str) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "numba", "numpy"))
    head = ["model", "batch", "torch, µs/window", "plain loops", "vector instructions"]
    head += ["torch ÷ vector", "plain ÷ vector"]
    about = (
        f"`python -m tests.bench.backends`, {datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, "
        f"{versions}, {processor()}; CPU time of one thread per explained window of {CHANNELS} channels, {STEPS} steps "
        f"and {CLASSES} classes, best of {TURNS} turns that the backends take one after the other. Plain loops are the "
        "same compiled code, with the vector instructions replaced by the loops of tests/support/plain_loops.py, which "
        "numba vectorises as far as it can."
    )
    compiling = f"{first_s['numba']:.0f} s with vector instructions, {first_s['plain']:.0f} s with plain loops"
    return "\n".join(
        [
            "# Backends: torch, plain loops, vector instructions",
            "",
            f"{about} {note}".rstrip(),
            "",
            "| " + " | ".join(head) + " |",
            "| " + " | ".join(["---"] * len(head)) + " |",
            *map(str, rows),
            "",
            f"Compiling all of it, at the first start with an empty cache: {compiling}.",
            "",
            "What follows from it: [decision 0008](../decisions/0008-hand-written-vector-instructions.md).",
            "",
        ]
    )


def processor() -> str:
    """As Linux names it; elsewhere as Python does."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", choices=BACKENDS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--note", default="", help="what else a reader should know, such as how busy the machine was")
    wanted = parser.parse_args()
    if wanted.serve:
        serve(wanted.serve)
        return
    text = report(*measure(), wanted.note)
    print(text)
    if wanted.out:
        wanted.out.write_text(text)


if __name__ == "__main__":
    main()
