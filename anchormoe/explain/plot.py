"""An explanation as a plot: the series with its evidence, the sum as a waterfall, experts, channels."""

import io
from typing import Any

import numpy as np

from anchormoe.explain.explanation import Explanation

SUPPORT, OPPOSE, INK, GREY = "#2b6cb0", "#c05621", "#1f2933", "#8a8f98"
MAX_CHANNELS = 8
MAX_EXPERTS = 8
CHANNEL_LETTERS = 40
"""Letters that fit side by side below the channel map; longer names are slanted."""


def plot_explanation(explanation: Explanation, *, title: str | None = None) -> bytes:
    """A PNG; on a page that has its own title without one."""
    from matplotlib.figure import Figure

    channels = _shown_channels(explanation)
    height = max(6.4, 1.0 * len(channels) + 3.2)
    figure: Any = Figure(figsize=(13.5, height), layout="constrained", dpi=110)
    left, right = figure.subfigures(1, 2, width_ratios=[1.55, 1])
    _draw_series(left, explanation, channels)
    _draw_sums(right, explanation, channels)
    if title is not None:
        figure.suptitle(f"{title}\n{headline(explanation)}", x=0.01, ha="left", fontsize=12, color=INK)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": "anchormoe"})
    return buffer.getvalue()


def headline(explanation: Explanation) -> str:
    """State, probability, truth and the sum in one line."""
    probability = explanation.probabilities[explanation.label]
    predicted = f"{class_name(explanation.state)} ({probability:.1%})"
    if explanation.abstention:
        predicted = f"unknown (rule {explanation.abstention}); most probable: {predicted}"
    truth = "" if explanation.truth is None else f", true class {class_name(explanation.truth)}"
    return f"{predicted}{truth};  logit {explanation.logit:+.3f} = context {explanation.context:+.3f} + evidence"


def class_name(state: str) -> str:
    """With the word `class` before a name that is a bare number."""
    return f"class {state}" if state.replace(".", "", 1).isdecimal() else state


def _shown_channels(explanation: Explanation) -> list[int]:
    """All, or those with the largest effect by occlusion, in their own order."""
    count = len(explanation.config.channels)
    tried = [patch.channels for patch in explanation.patches if patch.channels is not None]
    weight = np.nansum(np.abs(tried), axis=0) if tried else np.zeros(count)
    return sorted(int(index) for index in np.argsort(-weight, kind="stable")[:MAX_CHANNELS])


def _draw_series(part: Any, explanation: Explanation, channels: list[int]) -> None:
    axes = part.subplots(len(channels) + 1, 1, sharex=True, height_ratios=[1] * len(channels) + [1.5])
    for axis, channel in zip(axes, channels, strict=False):
        _draw_channel(axis, explanation, channel)
    _draw_evidence(axes[-1], explanation)
    left_out = len(explanation.config.channels) - len(channels)
    note = f"  ({left_out} channels with less effect are not shown)" if left_out else ""
    part.align_ylabels(axes)  # left of the widest tick labels
    shaded = f"shaded: evidence for (blue) and against (orange) {class_name(explanation.state)}"
    axes[0].set_title(f"the window; {shaded}{note}", loc="left", fontsize=10, color=INK)


def _draw_channel(axis: Any, explanation: Explanation, channel: int) -> None:
    values = np.where(explanation.mask[channel], explanation.window[channel], np.nan)
    _shade(axis, explanation)
    axis.plot(values, color=INK, linewidth=1.1, marker="." if len(values) < 40 else None, markersize=3)
    unit = explanation.config.units[channel]
    axis.set_ylabel(explanation.config.channels[channel] + (f"\n{unit}" if unit else ""), fontsize=8,
                    rotation=0, ha="right", va="center")  # fmt: skip
    _hide_spines(axis)


def _shade(axis: Any, explanation: Explanation) -> None:
    """The strongest patches as bands; they darken where they overlap, as their evidence adds up."""
    most = max((abs(patch.contribution) for patch in explanation.patches), default=0.0)
    for index in explanation.strongest if most else []:
        patch = explanation.patches[index]
        colour = SUPPORT if patch.contribution > 0 else OPPOSE
        strength = 0.3 * abs(patch.contribution) / most
        axis.axvspan(patch.start - 0.5, patch.stop - 0.5, color=colour, alpha=strength, linewidth=0)


def _draw_evidence(axis: Any, explanation: Explanation) -> None:
    steps = explanation.steps
    axis.bar(np.arange(len(steps)), steps, width=1.0, color=np.where(steps > 0, SUPPORT, OPPOSE), linewidth=0)
    axis.axhline(0, color=GREY, linewidth=0.8)
    axis.set_ylabel("evidence\nper step", fontsize=8, rotation=0, ha="right", va="center")
    axis.set_xlim(-0.5, len(steps) - 0.5)
    axis.set_xlabel("step", fontsize=9)
    _hide_spines(axis)


def _draw_sums(part: Any, explanation: Explanation, channels: list[int]) -> None:
    experts = _shown_experts(explanation)
    tall = 0.5 + 0.34 * len(experts)
    axes = part.subplots(3, 1, height_ratios=[3.4, tall, 1.5])
    _draw_waterfall(axes[0], explanation)
    _draw_experts(axes[1], experts)
    _draw_occlusion(part, axes[2], explanation, channels)


def waterfall(explanation: Explanation) -> list[tuple[str, float]]:
    """Context, the strongest patches in time order, the rest; the values add up to the logit."""
    chosen = sorted(explanation.strongest)
    rows = [("context", explanation.context)]
    rows += [
        (f"{patch.start}–{patch.stop - 1}", patch.contribution)
        for patch in (explanation.patches[index] for index in chosen)
    ]
    rest = [patch.contribution for index, patch in enumerate(explanation.patches) if index not in chosen]
    return rows + ([(f"{len(rest)} other patches", float(sum(rest)))] if rest else [])


def _draw_waterfall(axis: Any, explanation: Explanation) -> None:
    rows = waterfall(explanation)
    ends = np.cumsum([value for _, value in rows])
    starts = np.concatenate(([0.0], ends[:-1]))
    for place, ((_, value), start) in enumerate(zip(rows, starts, strict=True)):
        colour = GREY if place == 0 else SUPPORT if value > 0 else OPPOSE
        axis.barh(place, value, left=start, color=colour, height=0.66)
        _label(axis, place, max(start, start + value), f"{value:+.3f}")
    axis.barh(len(rows), ends[-1], color=INK, height=0.66)
    _label(axis, len(rows), max(0.0, ends[-1]), f"{ends[-1]:+.3f}")
    names = [*(name for name, _ in rows), f"logit of {class_name(explanation.state)}"]
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.invert_yaxis()
    axis.axvline(0, color=GREY, linewidth=0.8)
    axis.margins(x=0.16)
    axis.set_title("how the score adds up (steps of the patches)", loc="left", fontsize=10, color=INK)
    _hide_spines(axis)


def _label(axis: Any, place: float, x: float, text: str) -> None:
    axis.annotate(text, (x, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7.5, color=INK)


def _shown_experts(explanation: Explanation) -> list[tuple[str, float]]:
    """The largest with their weight and reliability, the others as one sum."""
    order = sorted(explanation.experts, key=lambda one: -abs(one.contribution))
    shown = [(_expert_name(one.name, one.weight, one.reliability), one.contribution) for one in order[:MAX_EXPERTS]]
    rest = order[MAX_EXPERTS:]
    return shown + ([(f"{len(rest)} others", sum(one.contribution for one in rest))] if rest else [])


def _expert_name(name: str, weight: float | None, reliability: float | None) -> str:
    parts = [f"w {weight:.2f}"] if weight is not None else []
    parts += [f"κ {reliability:.2f}"] if reliability is not None else []
    return f"{name}  ({', '.join(parts)})" if parts else name


def _draw_experts(axis: Any, experts: list[tuple[str, float]]) -> None:
    values = [value for _, value in experts]
    axis.barh(range(len(experts)), values, color=[SUPPORT if value > 0 else OPPOSE for value in values], height=0.6)
    for place, value in enumerate(values):
        _label(axis, place, max(0.0, value), f"{value:+.3f}")
    axis.set_yticks(range(len(experts)), [name for name, _ in experts], fontsize=8)
    axis.axvline(0, color=GREY, linewidth=0.8)
    axis.margins(x=0.16)
    axis.set_ylim(max(len(experts), 3) - 0.5, -0.5)
    axis.set_title("by expert (w: weight, κ: reliability), without context", loc="left", fontsize=10, color=INK)
    _hide_spines(axis)


def _draw_occlusion(part: Any, axis: Any, explanation: Explanation, channels: list[int]) -> None:
    rows = [patch for patch in explanation.patches if patch.channels is not None]
    values = np.array([patch.channels[channels] for patch in rows if patch.channels is not None])
    most = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    image = axis.imshow(values, cmap=_colours(), vmin=-most, vmax=most, aspect="auto")
    axis.set_yticks(range(len(rows)), [f"{patch.start}–{patch.stop - 1}" for patch in rows], fontsize=8)
    names = [explanation.config.channels[channel] for channel in channels]
    slanted = max(map(len, names)) > CHANNEL_LETTERS // max(1, len(names))
    axis.set_xticks(
        range(len(names)), names, fontsize=8, rotation=30 if slanted else 0, ha="right" if slanted else "center"
    )
    axis.set_title(f"by channel: logit lost without it ({explanation.channel_method})",
                   loc="left", fontsize=10, color=INK)  # fmt: skip
    part.colorbar(image, ax=axis, shrink=0.9).ax.tick_params(labelsize=7)


def _colours() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("evidence", [OPPOSE, "#ffffff", SUPPORT])


def _hide_spines(axis: Any) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8)
