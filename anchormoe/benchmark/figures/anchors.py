"""Cosines between the posterior anchors of the paper's experts, with and without the orthogonality loss."""

from pathlib import Path

import numpy as np
import torch

from anchormoe.benchmark.figures.fitted import ShownSet, fit_shown, load_shown
from anchormoe.benchmark.figures.style import INK, new_figure, store
from anchormoe.cases import Float64
from anchormoe.paper.dpar import posterior_anchors
from anchormoe.paper.net import PaperNet
from anchormoe.paper.source import PaperSource
from anchormoe.predictor import Predictor

SETS = ("localized", "composition", "distractor", "multi-distractor")
WHITE_FROM = 0.42
"""Dark cells have white numbers."""
VARIANTS: dict[str, dict[str, float]] = {"with the loss": {}, "without": {"lambda_orth": 0.0}}


def draw_anchors(folder: Path, sets: tuple[str, ...] = SETS) -> list[Path]:
    """Mean over TEST cases; the mean |cosine| between different experts stands above each matrix."""
    figure, grid = new_figure(len(VARIANTS), len(sets), size=(2.5 * len(sets) + 0.8, 5.4))
    image = None
    for column, name in enumerate(sets):
        shown = load_shown(name)
        for row, (label, changes) in enumerate(VARIANTS.items()):
            cosines = anchor_cosines(fit_shown(name, "paper", **changes), shown)
            axes = grid[row, column]
            image = axes.imshow(cosines, vmin=-1, vmax=1, cmap="PuOr")
            _write_values(axes, cosines)
            outside = np.abs(cosines[~np.eye(len(cosines), dtype=bool)]).mean()
            axes.set_title(f"{name}, {label}\nmean |cosine| {outside:.2f}", fontsize=8, color=INK)
    figure.colorbar(image, ax=grid, shrink=0.6, label="cosine between anchors")
    return store(figure, folder, "anchors")


def anchor_cosines(predictor: Predictor, shown: ShownSet) -> Float64:
    """(M, M) of a model of the recipe paper, mean over TEST."""
    source = predictor.model.parts[0].source
    assert isinstance(source, PaperSource)
    net = PaperNet(source.architecture)
    net.load_state_dict({name: torch.tensor(value) for name, value in source.tensors().items()})
    scaled = predictor.model.normalizer.apply(shown.split.test.cases)
    x, mask = torch.from_numpy(scaled.x), torch.from_numpy(scaled.mask)
    with torch.no_grad():
        valid = net.config.grid.valid(mask)
        unit = net.eval().mvre(net.config.grid.cut(x), valid)
        anchors = torch.nn.functional.normalize(posterior_anchors(unit, net.dpar(unit), valid), dim=2)
    return np.asarray(torch.bmm(anchors, anchors.transpose(1, 2)).mean(dim=0).double().numpy())


def _write_values(axes, cosines: Float64) -> None:  # type: ignore[no-untyped-def]  # matplotlib
    names = [f"e{at}" for at in range(len(cosines))]
    axes.set_xticks(range(len(cosines)), names, fontsize=7)
    axes.set_yticks(range(len(cosines)), names, fontsize=7)
    for row, values in enumerate(cosines):
        for column, value in enumerate(values):
            dark = "white" if abs(value) > WHITE_FROM else INK
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=dark)
