"""Colours that colour-blind readers tell apart and that print in grey, and how a figure is stored."""

from pathlib import Path
from typing import Any

INK, GREY, PALE = "#222222", "#767676", "#e6e6e6"
BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
"""Of Okabe and Ito."""
TRUTH, DISTRACTOR = "#9ecae1", "#fcbba1"
"""Bands behind a signal; the second is hatched, too."""
HATCHES = ("", "///", "...", "xxx")
DPI = 150


def new_figure(rows: int, columns: int, *, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    """A figure of some inches without a window, and its axes as an array."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **options)
    return figure, axes


def store(figure: Any, folder: Path, name: str) -> list[Path]:
    """As SVG and PNG; the same figure gives the same SVG."""
    import matplotlib
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(paths[0], metadata={"Date": None})
    figure.savefig(paths[1], dpi=DPI)
    plt.close(figure)
    return paths


def plain(axes: Any, *, title: str = "") -> None:
    """Without the upper and right frame."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    if title:
        axes.set_title(title, loc="left", fontsize=9, color=INK)
