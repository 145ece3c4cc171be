"""Why evidence should be part of the computation: an explanation made afterwards beside ours, on the same series."""

from pathlib import Path

import numpy as np
import torch

from anchormoe.benchmark.explainers.models import explained_model, series_batch
from anchormoe.benchmark.explainers.registry import EXPLAINERS
from anchormoe.benchmark.figures.evidence import draw_channels, explain_bands, shade
from anchormoe.benchmark.figures.fitted import evidence_of, fit_shown, load_shown, right_case
from anchormoe.benchmark.figures.style import BLUE, GREY, INK, ORANGE, new_figure, plain, store
from anchormoe.cases import Cases, Float64
from anchormoe.predictor import Predictor

SET = "multi-distractor"
AFTERWARDS = "input-gradient"


def draw_motivation(folder: Path) -> list[Path]:
    """Left: Input × Gradient of the paper's net, which does not add up. Right: our evidence, which does."""
    shown = load_shown(SET)
    ours, paper = fit_shown(SET, "joint"), fit_shown(SET, "paper")
    case = right_case(shown, [ours, paper])
    one = shown.split.test.cases.subset([case])
    figure, grid = new_figure(2, 2, size=(10, 5), sharex=True, height_ratios=[1.6, 1])
    for axes in grid[0]:
        draw_channels(axes, shown, case)
    explain_bands(grid[0, 0])
    grid[0, 1].set_ylim(grid[0, 0].get_ylim())
    plain(grid[0, 0], title="explained afterwards: Input × Gradient of the paper's net")
    plain(grid[0, 1], title="evidence that the score is made of: our default model")
    after, score = _afterwards(paper, one)
    shade(grid[1, 0], shown, case)
    grid[1, 0].bar(np.arange(len(after)), after, color=np.where(after > 0, ORANGE, GREY), width=1.0, zorder=2)
    plain(grid[1, 0], title=f"adds up to {after.sum():+.2f}; the score changed by {score:+.2f}")
    places, values = evidence_of(ours, shown, case)
    found = ours.predict_cases(one)
    label = found.label[0]
    context = found.context[0, label] - found.context[0].mean()
    logit = found.logits[0, label] - found.logits[0].mean()
    shade(grid[1, 1], shown, case)
    width = 0.85 * float(places[1] - places[0])
    grid[1, 1].bar(places, values, width=width, color=np.where(values > 0, BLUE, GREY), zorder=2)
    title = f"evidence {values.sum():+.2f} and context {context:+.2f} are the score {logit:+.2f}"
    plain(grid[1, 1], title=title)
    grid[1, 0].set_ylabel("attribution", fontsize=8)
    grid[1, 1].set_ylabel("evidence", fontsize=8)
    for axes in grid[1]:
        axes.axhline(0, color=INK, linewidth=0.7)
        axes.set_xlabel("step", fontsize=8)
    return store(figure, folder, "motivation")


def _afterwards(predictor: Predictor, one: Cases) -> tuple[Float64, float]:
    """(T,) attributions summed over channels, and u(x) − u(mean) of the predicted class, centred."""
    label = predictor.predict_cases(one).label
    model = explained_model(predictor.model)
    batch = series_batch(predictor.model, one, label)
    explainer = next(each for each in EXPLAINERS if each.name == AFTERWARDS)
    values = np.asarray(explainer.load()(model, batch, 0)(batch).values[0].sum(axis=0))
    logits = torch.stack([model.logits(x, batch.mask)[0] for x in (batch.x, 0 * batch.x)]).double()
    scores = logits[:, label[0]] - logits.mean(dim=1)
    return values, float(scores[0] - scores[1])
