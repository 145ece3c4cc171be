"""Critical-difference diagrams: mean ranks on a line, with the band in which a method does not differ from ours."""

from collections.abc import Mapping
from pathlib import Path

from anchormoe.benchmark.significance import ControlTest, Ranking

WIDTH_INCHES = 9.0
ROW_INCHES = 0.32
DIFFERENT = "#b35806"
ALIKE = "#4d4d4d"
CONTROL = "#2166ac"


def draw_rank_diagram(
    ranking: Ranking, test: ControlTest, labels: Mapping[str, str], title: str, paths: tuple[Path, ...]
) -> None:
    """Writes one picture per path (SVG, PNG). Blue is ours, grey inside its band, orange outside."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    ordered = sorted(ranking.ranks, key=lambda name: ranking.ranks[name])
    left, right = ordered[: (len(ordered) + 1) // 2], ordered[(len(ordered) + 1) // 2 :]
    rows = max(len(left), len(right))
    figure, axes = plt.subplots(figsize=(WIDTH_INCHES, 1.5 + ROW_INCHES * rows), layout="constrained")
    highest = len(ordered)
    axes.set_xlim(highest + 0.2, 0.8)  # the best method stands on the right, as in Demšar's diagrams
    axes.set_ylim(-rows - 0.6, 1.4)
    axes.axis("off")
    axes.hlines(0, 1, highest, color="black", linewidth=1)
    for rank in range(1, highest + 1):
        axes.vlines(rank, 0, 0.15, color="black", linewidth=1)
        axes.text(rank, 0.25, str(rank), ha="center", va="bottom", fontsize=9)
    ours = ranking.ranks[test.control]
    low, high = max(1.0, ours - test.critical_difference), min(float(highest), ours + test.critical_difference)
    axes.fill_betweenx([-rows - 0.4, 0], low, high, color=CONTROL, alpha=0.10, linewidth=0)
    for at, name in enumerate(left):
        _label(
            axes, ranking.ranks[name], -at - 1, 0.75, "left", _text(name, ranking, labels), _colour(name, ranking, test)
        )
    for at, name in enumerate(reversed(right)):
        _label(
            axes, ranking.ranks[name], -at - 1, highest + 0.25, "right",
            _text(name, ranking, labels), _colour(name, ranking, test),
        )  # fmt: skip
    p_value = "–" if ranking.friedman_p is None else f"{ranking.friedman_p:.2g}"
    axes.set_title(
        f"{title}: mean ranks over {ranking.sets} sets, Friedman p = {p_value}\n"
        f"band: not different from ours by Bonferroni–Dunn, two-sided .05 "
        f"(critical difference {test.critical_difference:.2f})",
        fontsize=10,
    )
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    plt.close(figure)


def _text(name: str, ranking: Ranking, labels: Mapping[str, str]) -> str:
    return f"{labels.get(name, name)}  {ranking.ranks[name]:.2f}"


def _colour(name: str, ranking: Ranking, test: ControlTest) -> str:
    if name == test.control:
        return CONTROL
    far = abs(ranking.ranks[name] - ranking.ranks[test.control]) > test.critical_difference
    return DIFFERENT if far else ALIKE


def _label(axes, rank: float, row: float, edge: float, side: str, text: str, colour: str) -> None:  # type: ignore[no-untyped-def]
    """An elbow from the rank's place on the line to the label at one edge."""
    axes.plot([rank, rank, edge], [0, row, row], color=colour, linewidth=1.2)
    axes.plot([rank], [0], marker="o", color=colour, markersize=4)
    axes.text(edge, row, text, ha=side, va="center", color=colour, fontsize=9)
