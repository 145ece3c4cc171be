"""Time of a prediction with its evidence against the number of patches: the paper's net and attention over patches."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from anchormoe.benchmark.figures.style import BLUE, GREY, ORANGE, new_figure, plain, store
from anchormoe.cases import Float64
from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.net import PaperNet
from anchormoe.paper.serving import ServingNet

PATCHES = (16, 32, 64, 128, 256, 512, 1024, 2048)
LENGTH, STRIDE, CHANNELS, CLASSES, WIDTH = 16, 8, 4, 3, 64
TURNS = 15


def draw_patch_times(folder: Path) -> list[Path]:
    """The best of fifteen turns each; both axes are logarithmic, so a slope of one is linear."""
    ours, attention = measure_times(PATCHES, turns=TURNS)
    figure, grid = new_figure(1, 1, size=(6.2, 4))
    axes = grid[0, 0]
    axes.loglog(PATCHES, ours, "o-", color=BLUE, label=f"paper's net with its evidence (slope {_slope(ours):.2f})")
    axes.loglog(
        PATCHES,
        attention,
        "s--",
        color=ORANGE,
        label=f"one layer of attention, same width (slope {_slope(attention):.2f})",
    )
    axes.loglog(PATCHES, ours[-1] * np.asarray(PATCHES) / PATCHES[-1], ":", color=GREY, label="linear")
    axes.set_xticks(PATCHES, [str(one) for one in PATCHES])
    axes.minorticks_off()
    axes.set_xlabel("patches", fontsize=9)
    axes.set_ylabel("milliseconds per window", fontsize=9)
    axes.legend(fontsize=8)
    plain(axes, title="time against patches: one window, one thread, processor time")
    return store(figure, folder, "patch-times")


def measure_times(patches: tuple[int, ...], *, turns: int) -> tuple[Float64, Float64]:
    """Milliseconds of the paper's net and of a Transformer layer on as many tokens, of one thread.

    Processor time: other processes may run beside it.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = ServingNet(PaperNet(ModelConfig(CHANNELS, CLASSES, LENGTH, STRIDE, width=WIDTH)).eval())
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, batch_first=True).eval()
    ours, attention = [], []
    for count in patches:
        x = torch.randn(1, CHANNELS, STRIDE * (count - 1) + LENGTH)
        mask, tokens = torch.ones_like(x, dtype=torch.bool), torch.randn(1, count, WIDTH)
        ours.append(_best(lambda x=x, mask=mask: net.forward(x, mask), turns))  # type: ignore[misc]
        attention.append(_best(lambda tokens=tokens: _run(layer, tokens), turns))  # type: ignore[misc]
    return np.array(ours), np.array(attention)


def _run(layer: nn.Module, tokens: torch.Tensor) -> None:
    with torch.inference_mode():
        layer(tokens)


def _best(call: Callable[[], object], turns: int) -> float:
    call()
    times = []
    for _ in range(turns):
        started = time.thread_time()
        call()
        times.append(time.thread_time() - started)
    return 1e3 * min(times)


def _slope(times: Float64) -> float:
    """Of the upper half, where calls no longer cost more than arithmetic."""
    half = len(times) // 2
    return float(np.polyfit(np.log(PATCHES[half:]), np.log(times[half:]), 1)[0])
