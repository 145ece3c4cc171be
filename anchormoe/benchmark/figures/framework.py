"""How a score comes about in our default model and in the paper's net, as one drawing."""

from pathlib import Path
from typing import Any

from anchormoe.benchmark.figures.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, new_figure, store


def draw_framework(folder: Path) -> list[Path]:
    """Above ours, below the paper's; in both the score is the sum of what is shown."""
    figure, grid = new_figure(2, 1, size=(9.6, 5.4))
    ours, paper = grid[:, 0]
    for axes, title in (
        (ours, "Our default model (recipe joint): every step and channel adds its part"),
        (paper, "The paper's net (recipe paper): every patch adds its part"),
    ):
        axes.set(xlim=(0, 12), ylim=(0, 4))
        axes.axis("off")
        axes.set_title(title, loc="left", fontsize=10, color=INK)
    _draw_ours(ours)
    _draw_paper(paper)
    return store(figure, folder, "framework")


def _draw_ours(axes: Any) -> None:
    _box(axes, 0.1, 1.6, 1.7, "window\nchannels × steps\n+ what is missing", GREY)
    _box(axes, 2.5, 2.75, 2.5, "kernels\nshare of steps above a\nthreshold, per channel", BLUE)
    _box(axes, 2.5, 0.45, 2.5, "experts\ntokens of one channel routed\nto experts with anchors", ORANGE)
    _box(axes, 5.7, 2.75, 2.2, "linear read-out\nevidence of every step", BLUE)
    _box(axes, 5.7, 0.45, 2.2, "reliability × value\nevidence of every token", ORANGE)
    _box(axes, 8.6, 1.6, 1.5, "blend\nweighted, calibrated\nout of fold", GREEN)
    _box(axes, 10.6, 1.6, 1.3, "logit =\ncontext +\nΣ evidence", INK)
    for start, stop in (
        ((1.8, 2.15), (2.5, 3.2)), ((1.8, 1.95), (2.5, 0.9)), ((5.0, 3.2), (5.7, 3.2)), ((5.0, 0.9), (5.7, 0.9)),
        ((7.9, 3.2), (8.6, 2.25)), ((7.9, 0.9), (8.6, 1.85)), ((10.1, 2.05), (10.6, 2.05)),
    ):  # fmt: skip
        _arrow(axes, start, stop)


def _draw_paper(axes: Any) -> None:
    _box(axes, 0.1, 1.6, 1.5, "patches\nof all channels", GREY)
    _box(axes, 2.2, 1.6, 2.1, "MVRE\ntemporal, spectral and\ncontextual view → unit e", BLUE)
    _box(axes, 4.9, 2.75, 2.4, "DPAR\nrouting to M experts", ORANGE)
    _box(axes, 4.9, 0.45, 2.4, "posterior anchors\nkept orthogonal (loss)", PURPLE)
    _box(axes, 7.9, 1.6, 2.2, "RGC\nreliability κ, admission π\nof the chosen experts", GREEN)
    _box(axes, 10.6, 1.6, 1.3, "logit =\nΣ π w κ o\nover patches", INK)
    for start, stop in (
        ((1.6, 2.05), (2.2, 2.05)), ((4.3, 2.25), (4.9, 3.2)), ((7.3, 3.2), (7.9, 2.25)), ((4.3, 2.05), (7.9, 2.05)),
        ((10.1, 2.05), (10.6, 2.05)),
    ):  # fmt: skip
        _arrow(axes, start, stop)
    axes.annotate("", (6.1, 1.35), (6.1, 2.75), arrowprops={"arrowstyle": "->", "color": GREY, "linestyle": "--"})


def _box(axes: Any, x: float, y: float, width: float, text: str, colour: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    shape = FancyBboxPatch(
        (x, y), width, 0.9, boxstyle="round,pad=0.02,rounding_size=0.12", facecolor="white", edgecolor=colour,
        linewidth=1.6,
    )  # fmt: skip
    axes.add_patch(shape)
    title, _, rest = text.partition("\n")
    lines = rest.count("\n") + 1 if rest else 0
    axes.text(
        x + width / 2,
        y + 0.45 + 0.12 * lines,
        title,
        ha="center",
        va="center",
        fontsize=8.5,
        weight="bold",
        color=colour,
    )
    if rest:
        axes.text(x + width / 2, y + 0.31 - 0.02 * lines, rest, ha="center", va="center", fontsize=7, color=INK)


def _arrow(axes: Any, start: tuple[float, float], stop: tuple[float, float]) -> None:
    axes.annotate("", stop, start, arrowprops={"arrowstyle": "->", "color": GREY, "linewidth": 1.2})
