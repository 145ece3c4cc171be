"""Plots a data set on one page: class balance, lengths or spread, recordings over time, each channel by class."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from anchormoe.data.dataset import Dataset, Split
from anchormoe.data.inspection import Inspection, runs
from anchormoe.data.resampling import Recording
from anchormoe.windows import step_words

# Okabe and Ito's colours, which colour-blind readers can distinguish; further classes reuse them with another dash.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
DASHES = ("-", "--", ":", "-.")
MAX_CHANNELS = 12
MAX_CLASSES = 10
MAX_RECORDINGS = 40
GREY = "#BBBBBB"


def plot_inspection(path: Path, split: Split, facts: Inspection, recordings: Sequence[Recording] = ()) -> None:
    """Writes the page as an image; the suffix of `path` chooses the format."""
    from matplotlib.figure import Figure

    channels = min(len(split.train.channels), MAX_CHANNELS)
    rows, columns = -(-channels // 3), min(3, channels)
    height = 3.2 if len(recordings) <= 15 else 4.8
    figure = Figure(figsize=(13, 0.4 + height + 2.1 * rows), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=(height, 2.1 * rows))
    top, bottom = parts
    left, right = top.subplots(1, 2, width_ratios=(1, 1.6))
    _draw_balance(left, split)
    if recordings:
        _draw_recordings(right, recordings, split)
        _draw_example(
            bottom, _most_varied(recordings), split.train, bottom.subplots(rows, columns, squeeze=False).ravel()
        )
    else:
        _draw_lengths(right, split)
        _draw_medians(bottom, split.train, bottom.subplots(rows, columns, squeeze=False).ravel())
    figure.suptitle(_title(facts), fontsize=12, x=0.01, ha="left")
    with warnings.catch_warnings():
        # Names in scripts that the default font lacks are drawn as boxes; that is no reason to fail.
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(path, dpi=110)


def colour(index: int) -> str:
    """The colour of a class."""
    return COLOURS[index % len(COLOURS)]


def _title(facts: Inspection) -> str:
    period = "" if facts.period_s is None else f", {step_words(facts.period_s)}"
    sizes = f"{facts.train.cases:,} train / {facts.test.cases:,} test cases"
    names = f"{len(facts.channels)} channels, {len(facts.train.class_counts)} classes"
    return f"{_plain(facts.name)}: {sizes}, {names}{period}"


def _draw_balance(axes: Any, split: Split) -> None:
    places = np.arange(len(split.train.classes))
    colours = [colour(at) for at in range(len(places))]
    axes.barh(places - 0.2, split.train.class_counts, 0.38, color=colours)
    axes.barh(places + 0.2, split.test.class_counts, 0.38, color=colours, alpha=0.45)
    axes.set_yticks(places, [_short(name) for name in split.train.classes], fontsize=8 if len(places) < 15 else 6)
    axes.invert_yaxis()
    axes.set_title("cases per class (solid: train, pale: test)", fontsize=10, loc="left")
    _hide_spines(axes)


def _draw_lengths(axes: Any, split: Split) -> None:
    both = np.concatenate([split.train.cases.lengths, split.test.cases.lengths])
    if both.min() == both.max():
        _draw_spread(axes, split)
        return
    bins = np.linspace(both.min() - 0.5, both.max() + 0.5, min(40, int(both.max() - both.min()) + 2))
    axes.hist(
        [split.train.cases.lengths, split.test.cases.lengths], bins, color=[COLOURS[0], GREY], label=["train", "test"]
    )
    axes.set_title("series lengths in steps", fontsize=10, loc="left")
    axes.legend(frameon=False, fontsize=8)
    _hide_spines(axes)


def _draw_spread(axes: Any, split: Split) -> None:
    """Instead of lengths that are all equal: the spread of each channel."""
    x, mask = split.train.cases.x, split.train.cases.mask
    names = split.train.channels[:24]
    values = [x[:, at][mask[:, at]] for at in range(len(names))]
    scaled = [_scaled(one) for one in values]
    axes.boxplot(scaled, whis=(1, 99), showfliers=False, medianprops={"color": COLOURS[1]}, widths=0.6)
    slant = {"rotation": 60, "ha": "right"} if len(names) > 8 else {}
    axes.set_xticks(np.arange(1, len(names) + 1), [_short(name) for name in names], fontsize=7, **slant)
    axes.set_title(
        "spread of each channel in TRAIN (standardized; box: quartiles, whiskers: 1 to 99 %)", fontsize=10, loc="left"
    )
    _hide_spines(axes)


def _scaled(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if not len(values):
        return np.zeros(1, np.float32)
    return np.asarray((values - np.mean(values)) / max(float(np.std(values)), 1e-12), np.float32)


def _draw_recordings(axes: Any, recordings: Sequence[Recording], split: Split) -> None:
    shown = recordings[:MAX_RECORDINGS]
    tested = set() if split.test.groups is None else set(split.test.groups.tolist())
    for row, one in enumerate(shown):
        for code in range(len(split.train.classes)):
            spans = [(start, stop - start) for start, stop in runs(one.labels == code)]
            axes.broken_barh(spans, (row - 0.42, 0.84), color=colour(code))
        empty = [(start, stop - start) for start, stop in runs(_empty(one)) if stop - start > 1]
        axes.broken_barh(empty, (row - 0.42, 0.84), color="white")
    names = [f"{_plain(one.name)}{' (test)' if row in tested else ''}" for row, one in enumerate(shown)]
    axes.set_yticks(range(len(shown)), names, fontsize=8 if len(shown) < 15 else 5)
    axes.invert_yaxis()
    left_out = f", first {len(shown)} of {len(recordings)}" if len(shown) < len(recordings) else ""
    axes.set_title(
        f"recordings by label, in steps since their start; white: no data{left_out}", fontsize=10, loc="left"
    )
    _hide_spines(axes)


def _empty(one: Recording) -> npt.NDArray[np.bool_]:
    return np.asarray(np.isnan(one.steps).all(axis=1))


def _most_varied(recordings: Sequence[Recording]) -> Recording:
    """The recording with the most classes; among equals the one with the most samples."""
    return max(recordings, key=lambda one: (len(set(one.labels[one.labels >= 0])), one.samples))


def _draw_example(figure: Any, one: Recording, train: Dataset, grid: Sequence[Any]) -> None:
    steps = np.arange(len(one.steps))
    for index, axes in _shown(grid, train):
        for code, name in enumerate(train.classes):
            values = np.where(one.labels == code, one.steps[:, index], np.nan)
            axes.plot(steps, values, ".", markersize=1.6, color=colour(code), label=_short(name))
        _name(axes, train, index)
    _legend(figure, grid[0], 5)
    figure.suptitle(
        f"recording {_plain(one.name)} by label, in steps since its start{_left_out(train)}",
        fontsize=10,
        x=0.01,
        ha="left",
    )


def _draw_medians(figure: Any, train: Dataset, grid: Sequence[Any]) -> None:
    for index, axes in _shown(grid, train):
        _draw_median(axes, train, index)
    _legend(figure, grid[0], 1)
    some = "" if len(train.classes) <= MAX_CLASSES else f", first {MAX_CLASSES} of {len(train.classes)} classes"
    figure.suptitle(
        f"median of TRAIN by step, interquartile range shaded{_left_out(train)}{some}", fontsize=10, x=0.01, ha="left"
    )


def _shown(grid: Sequence[Any], train: Dataset) -> list[tuple[int, Any]]:
    """A pair of axes for each channel that is drawn; the rest of the grid is emptied."""
    channels = telling_channels(train)
    for axes in grid[len(channels) :]:
        axes.set_axis_off()
    return list(zip(channels, grid, strict=False))


def telling_channels(train: Dataset, most: int = MAX_CHANNELS) -> list[int]:
    """Of many channels those whose levels and spreads differ most between the classes of TRAIN, in their own order."""
    if len(train.channels) <= most:
        return list(range(len(train.channels)))
    valid = train.cases.mask
    count = np.maximum(valid.sum(axis=2), 1)
    mean = np.where(valid, train.cases.x, 0).sum(axis=2, dtype=np.float64) / count  # (N, C)
    away = np.where(valid, train.cases.x - mean[:, :, None], 0.0)
    spread = np.sqrt((away**2).sum(axis=2) / count)
    ratio = np.maximum(_between_classes(mean, train.y), _between_classes(spread, train.y))
    return sorted(np.argsort(-ratio, kind="stable")[:most].tolist())


def _between_classes(values: npt.NDArray[np.float64], y: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """(C,) share of the variance over cases (N, C) that is between the classes."""
    away = values - values.mean(axis=0)
    between = np.zeros(values.shape[1])
    for label in np.unique(y):
        between += (y == label).mean() * away[y == label].mean(axis=0) ** 2
    return np.asarray(between / np.maximum((away**2).mean(axis=0), 1e-300))


def _left_out(train: Dataset) -> str:
    if len(train.channels) <= MAX_CHANNELS:
        return ""
    return f"; the {MAX_CHANNELS} of {len(train.channels)} channels that tell the classes of TRAIN apart best"


def _legend(figure: Any, axes: Any, scale: float) -> None:
    handles, labels = axes.get_legend_handles_labels()
    place = {"loc": "outside lower center", "ncols": min(10, len(labels))}
    figure.legend(handles, labels, frameon=False, fontsize=8, markerscale=scale, **place)


def _draw_median(axes: Any, train: Dataset, index: int) -> None:
    for code, name in enumerate(train.classes[:MAX_CLASSES]):
        own = train.y == code
        if not own.any():
            continue
        low, middle, high = _quartiles(train.cases.x[own, index], train.cases.mask[own, index])
        steps = np.arange(len(middle))
        axes.fill_between(steps, low, high, color=colour(code), alpha=0.12, linewidth=0)
        axes.plot(
            steps, middle, DASHES[code // len(COLOURS) % 4], color=colour(code), linewidth=1.2, label=_short(name)
        )
    _name(axes, train, index)


def _name(axes: Any, train: Dataset, index: int) -> None:
    unit = f" [{_plain(train.units[index])}]" if train.units[index] else ""
    axes.set_title(f"{_short(train.channels[index], 28)}{unit}", fontsize=9, loc="left")
    axes.tick_params(labelsize=7)
    _hide_spines(axes)


def _quartiles(x: npt.NDArray[np.float32], mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Quartiles (3, T) over the cases valid at each step; NaN where fewer than a fifth of them are."""
    enough = mask.mean(axis=0) >= 0.2
    quartiles = np.full((3, x.shape[1]), np.nan)
    if enough.any():
        valid = np.where(mask, x, np.nan)[:, enough].astype(np.float64)
        quartiles[:, enough] = np.nanquantile(valid, (0.25, 0.5, 0.75), axis=0)
    return quartiles


def _short(name: str, most: int = 16) -> str:
    return _plain(name if len(name) <= most else name[: most - 1] + "…")


def _plain(text: str) -> str:
    """Names are text, not formulas: matplotlib would read what stands between two dollar signs."""
    return text.replace("$", r"\$")


def _hide_spines(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
