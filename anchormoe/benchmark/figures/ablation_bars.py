"""Bars of the paper's ablation (w/o MVRE, DPAR, RGC): accuracy and localization, from the ledger."""

from collections.abc import Sequence
from pathlib import Path

from anchormoe.benchmark.ablation import PAPER
from anchormoe.benchmark.comparison import Spread, mean_and_deviation
from anchormoe.benchmark.figures.style import BLUE, GREEN, HATCHES, INK, ORANGE, PURPLE, new_figure, plain, store
from anchormoe.benchmark.ledger import Entry

COLOURS = (BLUE, ORANGE, GREEN, PURPLE)


def draw_ablation(entries: Sequence[Entry], folder: Path) -> list[Path]:
    """Nothing without a set on which all four variants ran."""
    accuracy = _figures(entries, "accuracy")
    auprc = _figures(entries, "auprc")
    panels = [(title, found) for title, found in (("accuracy", accuracy), ("AUPRC of the evidence", auprc)) if found]
    if not panels:
        return []
    widest = max(len(found) for _, found in panels)
    figure, grid = new_figure(len(panels), 1, size=(max(6.0, 1.5 + 0.62 * widest), 0.6 + 2.4 * len(panels)))
    for axes, (title, found) in zip(grid[:, 0], panels, strict=True):
        _draw_bars(axes, found)
        axes.set_xlim(-0.6, widest - 0.4)  # bars of all panels are equally wide
        seeds = min(one.count for row in found.values() for one in row)
        plain(axes, title=f"{title}; seeds: {seeds}" + (", ± deviation" if seeds > 1 else ""))
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, ncols=len(PAPER), loc="outside upper right", frameon=False)
    return store(figure, folder, "ablation")


def _draw_bars(axes, found: dict[str, list[Spread]]) -> None:  # type: ignore[no-untyped-def]  # matplotlib
    for at, row in enumerate(PAPER):
        values = [spreads[at] for spreads in found.values()]
        axes.bar(
            [place + 0.2 * (at - 1.5) for place in range(len(found))], [one.mean for one in values], width=0.19,
            yerr=[one.deviation for one in values], color=COLOURS[at], hatch=HATCHES[at], edgecolor="white",
            label=row.label, error_kw={"ecolor": INK, "elinewidth": 0.8},
        )  # fmt: skip
    axes.set_xticks(range(len(found)), list(found), rotation=20, ha="right", fontsize=8)
    axes.set_ylim(0, 1.05)


def _figures(entries: Sequence[Entry], figure: str) -> dict[str, list[Spread]]:
    """By set, in the order of the variants."""
    found: dict[str, list[Spread]] = {}
    for name in dict.fromkeys(one.set_name for one in entries):
        spreads = [mean_and_deviation(_values(entries, name, row.name, figure)) for row in PAPER]
        known = [one for one in spreads if one is not None]
        if len(known) == len(PAPER):
            found[name.partition(":")[2]] = known
    return found


def _values(entries: Sequence[Entry], name: str, method: str, figure: str) -> list[float]:
    own = [one.metrics for one in entries if (one.set_name, one.method) == (name, method) and not one.skipped]
    if figure == "accuracy":
        return [float(one["accuracy"]) for one in own]
    return [float(one["localization"]["any_overlap"]["auprc"]) for one in own if "localization" in one]
