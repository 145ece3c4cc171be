"""Evidence over a signal whose deciding steps are known: two synthetic sets, our default model and the paper's net."""

from pathlib import Path
from typing import Any

import numpy as np

from anchormoe.benchmark.figures.fitted import ShownSet, evidence_of, fit_shown, load_shown, right_case
from anchormoe.benchmark.figures.style import BLUE, DISTRACTOR, GREY, INK, ORANGE, TRUTH, new_figure, plain, store
from anchormoe.cases import Bool, Float32
from anchormoe.predictor import Predictor

SETS = ("composition", "multi-distractor")
LEAST_SPACE = 3.0
"""Between the channels of one picture, where no channel needs more."""


def draw_evidence(folder: Path) -> list[Path]:
    """Per set: the signal, the evidence of both models, and the reliability that the paper's net gives each patch."""
    figure, grid = new_figure(4, len(SETS), size=(10, 7.5), sharex="col", height_ratios=[2.4, 1, 1, 0.8])
    for column, name in enumerate(SETS):
        shown = load_shown(name)
        ours, paper = fit_shown(name, "joint"), fit_shown(name, "paper")
        case = right_case(shown, [ours, paper])
        _draw_signal(grid[0, column], shown, case, column == 0)
        _draw_bars(grid[1, column], ours, shown, case, BLUE, "our evidence (default model), by patch")
        _draw_bars(grid[2, column], paper, shown, case, ORANGE, "contributions of the paper's net, by patch")
        _draw_reliability(grid[3, column], paper, shown, case)
    return store(figure, folder, "evidence")


def shade(axes: Any, shown: ShownSet, case: int) -> None:
    """Bands of the true evidence, and hatched ones of the distractors, over all channels."""
    truth = shown.split.test.truth
    assert truth is not None
    for start, stop in _runs(truth[case].any(axis=0)):
        axes.axvspan(start - 0.5, stop - 0.5, color=TRUTH, alpha=0.55, linewidth=0, zorder=0)
    for start, stop in _runs(shown.distractors[case].any(axis=0)):
        axes.axvspan(
            start - 0.5,
            stop - 0.5,
            facecolor=DISTRACTOR,
            alpha=0.4,
            hatch="///",
            edgecolor="white",
            linewidth=0,
            zorder=0,
        )


def _draw_signal(axes: Any, shown: ShownSet, case: int, first: bool) -> None:
    draw_channels(axes, shown, case)
    test = shown.split.test
    plain(axes, title=f"{shown.name}: TEST case {case}, {test.classes[test.y[case]]}")
    if first:
        explain_bands(axes)


def draw_channels(axes: Any, shown: ShownSet, case: int) -> None:
    """All channels, the first one on top, so far apart that none reaches into another's place."""
    shade(axes, shown, case)
    test = shown.split.test
    signal = test.cases.x[case]
    space = channel_space(signal)
    for channel, values in enumerate(signal):
        axes.plot(values - space * channel, color=INK, linewidth=0.9)
    axes.set_yticks([-space * at for at in range(len(test.channels))], test.channels)


def channel_space(signal: Float32) -> float:
    """From (C, T): what one channel falls and the next one rises, at the same step, plus a little."""
    return max(LEAST_SPACE, 1.05 * float(np.max(signal[1:] - signal[:-1])))


def explain_bands(axes: Any) -> None:
    """A legend below the signals."""
    from matplotlib.patches import Patch

    bands = [
        Patch(facecolor=TRUTH, alpha=0.55, label="decides the class"),
        Patch(facecolor=DISTRACTOR, alpha=0.6, hatch="///", edgecolor="white", label="distractor"),
    ]
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.2 * (high - low), high)  # room for it below the signals
    axes.legend(handles=bands, fontsize=7.5, loc="lower left", framealpha=0.9, ncols=2)


def _draw_bars(axes: Any, predictor: Predictor, shown: ShownSet, case: int, colour: str, title: str) -> None:
    shade(axes, shown, case)
    places, values = evidence_of(predictor, shown, case)
    width = 0.85 * float(places[1] - places[0])
    axes.bar(places, values, width=width, color=np.where(values > 0, colour, GREY), zorder=2)
    axes.axhline(0, color=INK, linewidth=0.7)
    plain(axes, title=title)


def _draw_reliability(axes: Any, predictor: Predictor, shown: ShownSet, case: int) -> None:
    """s = Σ w κ of each patch."""
    shade(axes, shown, case)
    found = predictor.predict_cases(shown.split.test.cases.subset([case]))
    score = (found.weight[0] * found.reliability[0]).sum(axis=(1, 2))  # (P,)
    axes.step((found.starts + found.stops - 1) / 2, score, where="mid", color=ORANGE, linewidth=1.4)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("step", fontsize=8)
    plain(axes, title="its reliability of each patch, Σ w κ")


def _runs(marked: Bool) -> list[tuple[int, int]]:
    """Starts and ends of what is marked (T,)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], marked.astype(np.int8), [0]))))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]
