"""The plots of a model card: training curves, reliability, confusion. Only training needs matplotlib."""

import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anchormoe.cases import Bool, Float64, Int64
from anchormoe.evidence import Json
from anchormoe.metrics.scores import confusion
from anchormoe.recipes.expert_plot import plain

BLUE, ORANGE, GREY = "#2b6cb0", "#c05621", "#8a8f98"
_MAX_NAMED_CLASSES = 30


@dataclass(frozen=True, slots=True)
class ScoredPredictions:
    """Probabilities (N, Y) of cases with known class, under the title of their plot."""

    title: str
    probabilities: Float64
    y: Int64


def card_plots(
    report: Mapping[str, Json], predictions: Sequence[ScoredPredictions], classes: Sequence[str]
) -> dict[str, bytes]:
    """PNG files by name; without training curves there is no plot of them."""
    curves = plot_training(report)
    plots = {"reliability.png": plot_reliability(predictions), "confusion.png": plot_confusion(predictions, classes)}
    return plots | ({"curves.png": curves} if curves else {})


def plot_training(report: Mapping[str, Any]) -> bytes | None:
    """Loss over training of every run, and the blend's loss over the experts' share; None without either."""
    curves = training_curves(report)
    blend = report["sources"].get("experts", {}).get("blend")
    if not curves and not blend:
        return None
    figure, axes = _figure(1 + bool(curves and blend))
    if curves:
        _draw_curves(axes[0], curves)
    if blend:
        _draw_blend(axes[-1], blend)
    return _png(figure)


def training_curves(report: Mapping[str, Any]) -> dict[str, list[float]]:
    """Losses by name, from the reports of the sources."""
    sources = report["sources"]
    curves = _experts_curves(sources.get("experts", {}))
    for number, run in enumerate(sources.get("paper", {}).get("curves", []), start=1):
        for name in ("loss", "validation_loss"):
            values = [figures[name] for figures in run if name in figures]
            if values:
                curves[f"run {number} {name.replace('_', ' ')}"] = values
    return {name: values for name, values in curves.items() if values}


def _experts_curves(experts: Mapping[str, Any]) -> dict[str, list[float]]:
    validation = [
        figures["validation_loss"] for figures in experts.get("validation", []) if "validation_loss" in figures
    ]
    return {"experts": list(map(float, experts.get("losses", []))), "experts validation": validation}


def plot_reliability(predictions: Sequence[ScoredPredictions]) -> bytes:
    """Accuracy over confidence in bins of equally many cases, with 95 % intervals."""
    figure, axes = _figure(len(predictions))
    for axis, one in zip(axes, predictions, strict=True):
        axis.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
        confidence, right = one.probabilities.max(axis=1), one.probabilities.argmax(axis=1) == one.y
        for mean, share, half in _bins(confidence, right):
            axis.errorbar(mean, share, yerr=half, color=BLUE, marker="o", markersize=4, capsize=2, linewidth=1)
        axis.set(xlim=(0, 1.02), ylim=(-0.02, 1.05), xlabel="confidence", title=f"{one.title}, {len(one.y)} cases")
    axes[0].set_ylabel("share that is right")
    return _png(figure)


def plot_confusion(predictions: Sequence[ScoredPredictions], classes: Sequence[str]) -> bytes:
    """Rows are true classes, columns predicted ones; the colour is the share of the row."""
    size = max(3.6, 0.32 * min(len(classes), _MAX_NAMED_CLASSES) + 1.6)
    figure, axes = _figure(len(predictions), width=size + 0.6, height=size)
    for axis, one in zip(axes, predictions, strict=True):
        counts = confusion(one.y, np.asarray(one.probabilities.argmax(axis=1), np.int64), len(classes))
        _draw_confusion(axis, counts, classes)
        axis.set_title(f"{one.title}, {len(one.y)} cases")
    axes[0].set_ylabel("true class")
    return _png(figure)


def _draw_curves(axis: Any, curves: Mapping[str, list[float]]) -> None:
    for number, (name, values) in enumerate(curves.items()):
        colour = ORANGE if "validation" in name else BLUE
        axis.plot(range(1, len(values) + 1), values, color=colour, alpha=0.9 - 0.15 * min(number, 4), linewidth=1.2)
    axis.set(xlabel="training progress", ylabel="loss", title=_curve_title(curves))


def _curve_title(curves: Mapping[str, list[float]]) -> str:
    return "training (blue), validation (orange)" if any("validation" in name for name in curves) else "training"


def _draw_blend(axis: Any, blend: Mapping[str, Any]) -> None:
    shares, losses = zip(*blend["log_losses"], strict=True)
    axis.plot(shares, losses, color=BLUE, marker=".", linewidth=1.2)
    axis.axvline(blend["share"], color=ORANGE, linewidth=1.2)
    axis.set(xlabel="share of the experts", ylabel="out-of-fold loss", title="blend (orange: chosen)")


def _bins(confidence: Float64, right: Bool) -> list[tuple[float, float, float]]:
    """(mean confidence, accuracy, half width of its interval) of at most 15 bins with at least 10 cases."""
    order = np.argsort(confidence, kind="stable")
    parts = np.array_split(order, max(1, min(15, len(order) // 10)))
    rows = []
    for part in parts:
        share = float(right[part].mean())
        half = 1.96 * float(np.sqrt(max(share * (1 - share), 0.25 / len(part)) / len(part)))
        rows.append((float(confidence[part].mean()), share, half))
    return rows


def _draw_confusion(axis: Any, counts: Int64, classes: Sequence[str]) -> None:
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axis.set_xlabel("predicted class")
    if len(classes) > _MAX_NAMED_CLASSES:
        return
    names = [plain(name) for name in classes]
    axis.set_xticks(range(len(classes)), names, rotation=90)
    axis.set_yticks(range(len(classes)), names)
    for row, column in np.argwhere(counts > 0):
        colour = "white" if shares[row, column] > 0.5 else "black"
        axis.text(column, row, counts[row, column], ha="center", va="center", color=colour, fontsize=7)


def _figure(panels: int, *, width: float = 4.4, height: float = 3.6) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * panels, height), layout="constrained", dpi=110)
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, list(axes)


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    # A fixed name instead of matplotlib's version and date, so that equal trainings write equal bytes.
    with warnings.catch_warnings():
        # Names in scripts that the default font lacks are drawn as boxes; that is no reason to warn of a font.
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(buffer, format="png", metadata={"Software": "anchormoe"})
    return buffer.getvalue()
