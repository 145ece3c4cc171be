"""An explanation as one picture: signals before what is normal, evidence by time and channel, the sums, experts."""

import io
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from anchormoe.explain.explanation import Explanation, Sum
from anchormoe.explain.words import (
    class_name,
    clock,
    example_words,
    has_name,
    headline,
    number,
    waterfall,
    window_words,
    written_sum,
)
from anchormoe.profiles.names import shape_words, shorten_name, term_words

SUPPORT, OPPOSE, INK, GREY, BAND = "#2b6cb0", "#c05621", "#1f2933", "#8a8f98", "#dfe7dd"
MAX_CHANNELS = 6
MAX_ROWS = 12
MAX_EXPERTS = 5
_PROTOTYPES = 3
_EXAMPLES = 3
_WIDTH = 16.0
_PART = 0.6
"""A longer span is marked by the bar above the signal alone: shading nearly everything says nothing."""
_LINE = 150
"""Characters of a title's line."""


def plot_explanation(explanation: Explanation, *, title: str | None = None) -> bytes:
    """A PNG; on a page that has its own title without one."""
    from matplotlib.figure import Figure

    channels, rows = shown_channels(explanation), shown_terms(explanation)
    left_height = 0.95 * len(channels) + 0.24 * (len(rows) + 1) + 1.3
    figure: Any = Figure(figsize=(_WIDTH, max(9.4, left_height)), layout="constrained", dpi=100)
    left, right = figure.subfigures(1, 2, width_ratios=[1.3, 1])
    _draw_left(left, explanation, channels, rows)
    _draw_right(right, explanation)
    if title is not None:
        lines = [title, *textwrap.wrap(headline(explanation), _LINE), *textwrap.wrap(explanation.sentence, _LINE)]
        figure.suptitle(_plain("\n".join(lines)), x=0.01, ha="left", fontsize=11, color=INK)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": "anchormoe"})
    return buffer.getvalue()


def shown_channels(explanation: Explanation) -> list[int]:
    """Those with the most evidence, in their own order; channels of a set share its evidence."""
    size = np.zeros(len(explanation.config.channels))
    for term, value in zip(explanation.terms, np.abs(explanation.evidence).sum(axis=0), strict=True):
        size[list(term)] += value / len(term)
    for span in explanation.score.spans:  # of channels that were read together, the one that stands out
        size[span.channel] += 1e-9 * abs(span.value)
    return sorted(int(one) for one in np.argsort(-size, kind="stable")[:MAX_CHANNELS])


def shown_terms(explanation: Explanation) -> list[int]:
    """Rows of the map: the terms with the most evidence, strongest first."""
    size = np.abs(explanation.evidence).sum(axis=0)
    return [int(one) for one in np.argsort(-size, kind="stable")[:MAX_ROWS] if size[one] > 0]


def _draw_left(part: Any, explanation: Explanation, channels: list[int], rows: list[int]) -> None:
    heights = [0.95] * len(channels) + [0.24 * (max(len(rows), 3) + 1)]
    axes = part.subplots(len(channels) + 1, 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    for axis, channel in zip(axes, channels, strict=False):
        _draw_channel(axis, explanation, channel)
    _draw_map(part, axes[-1], explanation, rows)
    _label_times(axes[-1], explanation)
    compared = "all of TRAIN" if explanation.normal.label is None else class_name(explanation.normal.label)
    left_out = len(explanation.config.channels) - len(channels)
    note = f"\n{left_out} channels with less evidence are not drawn" if left_out else ""
    title = (
        f"signals; green: 90 % of the values of {shorten_name(compared)}; blue: for, orange: against the state{note}"
    )
    axes[0].set_title(_plain(title), loc="left", fontsize=9, color=INK)


def _draw_channel(axis: Any, explanation: Explanation, channel: int) -> None:
    normal, length = explanation.normal, explanation.config.length
    valid = explanation.mask[channel]
    values = np.where(valid, explanation.window[channel], np.nan)
    axis.axhspan(normal.low[channel], normal.high[channel], color=BAND, linewidth=0)
    axis.axhline(normal.mean[channel], color="#9db59a", linewidth=0.8, linestyle="--")
    most = max((abs(span.value) for span in explanation.score.spans), default=0.0)
    for span in explanation.score.spans:
        if channel in span.term and most and (len(span.term) == 1 or channel == span.channel):
            strength = abs(span.value) / most
            colour, place = SUPPORT if span.value > 0 else OPPOSE, (span.start - 0.5, span.stop - 0.5)
            axis.axvspan(*place, ymin=0.95, color=colour, alpha=0.35 + 0.65 * strength, linewidth=0)
            if span.stop - span.start <= _PART * length:
                axis.axvspan(*place, ymax=0.95, color=colour, alpha=0.1 + 0.25 * strength, linewidth=0)
    axis.plot(values, color=INK, linewidth=1.1, marker="." if length < 40 else None, markersize=3)
    for start, stop in _gaps(valid):
        axis.axvspan(start - 0.5, stop - 0.5, facecolor="none", edgecolor=GREY, hatch="////", linewidth=0, alpha=0.5)
    if not valid.any():
        lost = any(one.channel == channel for one in explanation.findings)
        words = "no value that can be right" if lost else "no data"
        axis.text(0.5, 0.5, words, transform=axis.transAxes, ha="center", va="center", fontsize=9, color=GREY)
    unit = explanation.config.units[channel]
    name = "\n".join(textwrap.wrap(shorten_name(explanation.config.channels[channel], 30), 16))
    axis.set_ylabel(
        _plain(name + (f"\n[{unit}]" if has_name(unit) else "")), fontsize=8, rotation=0, ha="right", va="center"
    )
    axis.yaxis.set_major_formatter(lambda value, _: tick_text(value))
    axis.margins(y=0.12)
    axis.set_xlim(-0.5, length - 0.5)
    _hide_spines(axis)


def tick_text(value: float) -> str:
    """The whole number: beside `20` and a `+1.013e5` above the axis nobody reads 101320."""
    return number(value, 9) if value == 0 or 1e-4 <= abs(value) < 1e7 else f"{value:.4g}"


def _gaps(valid: Any) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([True], valid, [True])).astype(np.int8)) != 0).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def _draw_map(part: Any, axis: Any, explanation: Explanation, rows: list[int]) -> None:
    """Time × channel; the last row is everything that has no row of its own, so that all rows add up."""
    others = [one for one in range(len(explanation.terms)) if one not in rows]
    table = explanation.evidence[:, rows].T
    names = [_term_name(explanation, row) for row in rows]
    if others:
        table = np.vstack((table, explanation.evidence[:, others].sum(axis=1)))
        names.append(f"{len(others)} others")
    if not len(table):
        table, names = np.zeros((1, explanation.config.length)), ["no evidence"]
    most = float(np.quantile(np.abs(table), 0.995)) or float(np.abs(table).max()) or 1.0
    image = axis.imshow(
        table, cmap=_colours(), vmin=-most, vmax=most, aspect="auto", interpolation="nearest",
        extent=(-0.5, explanation.config.length - 0.5, len(table) - 0.5, -0.5),
    )  # fmt: skip
    totals = [*(float(explanation.by_term[row]) for row in rows)]
    totals += [float(explanation.by_term[others].sum())] if others else []
    labels = [f"{name}  {total:+.2f}" for name, total in zip(names, totals or [0.0], strict=True)]
    axis.set_yticks(range(len(table)), [_plain(label) for label in labels], fontsize=7.5)
    axis.set_title("evidence by time and channel, with the sum of each row", loc="left", fontsize=9, color=INK)
    bar = part.colorbar(image, ax=axis, shrink=0.9, pad=0.01)
    bar.ax.tick_params(labelsize=7)
    axis.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axis.tick_params(labelsize=7.5)


def _term_name(explanation: Explanation, row: int) -> str:
    names = [shorten_name(name, 22) for name in explanation.config.channels]
    return term_words(explanation.terms[row], len(explanation.terms[row]), names)


def _label_times(axis: Any, explanation: Explanation) -> None:
    config, start = explanation.config, explanation.origin.start_ns
    ticks = np.linspace(0, config.length - 1, 6).round().astype(int)
    if config.period_ns is None:
        axis.set_xlabel("step", fontsize=9)
        return
    seconds = config.period_ns / 1e9
    if start is None:
        axis.set_xticks(ticks, [number(step * seconds) for step in ticks])
        axis.set_xlabel("seconds from the start of the window", fontsize=9)
        return
    axis.set_xticks(ticks, [clock(start + int(step) * config.period_ns, config.period_ns) for step in ticks])
    axis.set_xlabel(window_words(explanation), fontsize=9)


def _draw_right(part: Any, explanation: Explanation) -> None:
    score, margin = (waterfall(explanation, one, 20) for one in (explanation.score, explanation.margin))
    experts = explanation.experts[:MAX_EXPERTS]
    examples = [span for span in explanation.score.spans if span.example is not None][:_EXAMPLES]
    heights = [0.27 * (len(score) + 1) + 0.3, 0.27 * (len(margin) + 1) + 0.3, 0.62 * max(len(experts), 1) + 0.3]
    heights += [1.25] if examples else []
    parts = part.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    state, rival = (shorten_name(class_name(name), 24) for name in (explanation.state, explanation.rival))
    cancels = "" if explanation.cancellation is None else f" (cancellation {explanation.cancellation:.2f})"
    _draw_waterfall(parts[0], score, explanation.score, f"score of {state}", f"how the score adds up{cancels}")
    _draw_waterfall(parts[1], margin, explanation.margin, "margin", f"why not {rival}: by how much it lost")
    _draw_experts(parts[2], explanation, len(experts))
    if examples:
        _draw_examples(parts[3], explanation, examples)


def _draw_waterfall(part: Any, rows: list[tuple[str, float]], one: Sum, total: str, title: str) -> None:
    axis = part.subplots()
    ends = np.cumsum([value for _, value in rows])
    starts = np.concatenate(([0.0], ends[:-1]))
    last = len(rows) - 1
    texts, sum_text = written_sum(one, places=3)
    for place, ((_, value), start, text) in enumerate(zip(rows, starts, texts, strict=True)):
        colour = GREY if place in (0, last) else SUPPORT if value > 0 else OPPOSE
        axis.barh(place, value, left=start, color=colour, height=0.66)
        _label(axis, place, max(start, start + value), text)
    axis.barh(len(rows), one.total, color=INK, height=0.66)
    _label(axis, len(rows), max(0.0, one.total), sum_text)
    names = [*(name for name, _ in rows), total]
    axis.set_yticks(range(len(names)), [_plain(name) for name in names], fontsize=7.5)
    axis.invert_yaxis()
    axis.axvline(0, color=GREY, linewidth=0.8)
    axis.margins(x=0.16)
    axis.set_title(_plain(title), loc="left", fontsize=9, color=INK)
    _hide_spines(axis)


def _label(axis: Any, place: float, x: float, text: str) -> None:
    axis.annotate(text, (x, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7.5, color=INK)


def _draw_experts(part: Any, explanation: Explanation, count: int) -> None:
    """One row per expert: its part of the score in words, and the TRAIN segments it spoke loudest on."""
    axes = part.subplots(max(count, 1), 1 + _PROTOTYPES, width_ratios=[2.6, *[1] * _PROTOTYPES], squeeze=False)
    others = sum(one.contribution for one in explanation.experts[count:])
    more = f"; {len(explanation.experts) - count} others {others:+.3f}" if len(explanation.experts) > count else ""
    title = f"experts, and the TRAIN segments they spoke loudest on{more}"
    part.suptitle(title, x=0.01, ha="left", fontsize=9, color=INK)
    for row, one in enumerate(explanation.experts[:count]):
        facts = [f"{one.contribution:+.3f}"]
        facts += [f"weight {one.weight:.2f}"] if one.weight is not None else []
        facts += [f"reliability {one.reliability:.2f}"] if one.reliability is not None else []
        lines = textwrap.wrap(shorten_name(one.title, 72), 38)[:2]
        axes[row, 0].text(0, 0.5, _plain("\n".join([*lines, ", ".join(facts)])), fontsize=7.5, va="center", color=INK,
                          transform=axes[row, 0].transAxes)  # fmt: skip
        for axis in axes[row]:
            axis.set_axis_off()
        _draw_prototypes(axes[row, 1:], explanation, one.name)


def _draw_prototypes(axes: Sequence[Any], explanation: Explanation, name: str) -> None:
    profiles = explanation.profiles
    if profiles is None or name not in profiles.numbers:
        return
    expert = profiles.experts[profiles.numbers[name]]
    for axis, row in zip(axes, expert.prototypes, strict=False):
        segments, normal = profiles.segments, explanation.normal
        read = int(segments.channel[row])
        axis.axhspan(normal.low[read], normal.high[read], color=BAND, linewidth=0)
        axis.plot(segments.values[row], color=SUPPORT if segments.contribution[row] > 0 else OPPOSE, linewidth=1.2)
        channel = shorten_name(explanation.config.channels[read], 18)
        label = shorten_name(class_name(explanation.config.classes[int(segments.label[row])]), 18)
        axis.set_title(_plain(f"{channel}\n{label}"), fontsize=6, color=GREY, pad=1)


def _draw_examples(part: Any, explanation: Explanation, spans: Sequence[Any]) -> None:
    """The strongest spans (black) over the most similar TRAIN segment of the same expert (colour)."""
    from anchormoe.profiles.segments import shorten

    axes = part.subplots(1, _EXAMPLES, squeeze=False)[0]
    part.suptitle(
        "strongest spans (black) and the TRAIN segment most like them", x=0.01, ha="left", fontsize=9, color=INK
    )
    for axis in axes:
        axis.set_axis_off()
    for axis, span in zip(axes, spans, strict=False):
        steps = slice(span.start, span.stop)
        own = shorten(explanation.window[span.channel, steps], explanation.mask[span.channel, steps])
        axis.plot(span.example.values, color=SUPPORT, linewidth=2.4, alpha=0.5)
        if own is not None:
            axis.plot(own, color=INK, linewidth=1.1)
        name = shorten_name(explanation.config.channels[span.channel], 24)
        text = "\n".join([name, *textwrap.wrap(example_words(explanation, span.example), 44)[:3]])
        axis.set_title(_plain(text), fontsize=6.5, color=INK, loc="left", pad=2)


def expert_lines(explanation: Explanation, name: str) -> str:
    """What the profile of an expert says: shape, where, how often, how far it was right."""
    profiles = explanation.profiles
    if profiles is None or name not in profiles.numbers:
        return ""
    period_s = None if explanation.config.period_ns is None else explanation.config.period_ns / 1e9
    expert = profiles.experts[profiles.numbers[name]]
    where = ", ".join(
        f"{term_words(term.channels, term.count, explanation.config.channels)} {term.share:.0%}"
        for term in expert.terms
    )
    chosen = "" if expert.chosen is None else f"; chosen for {expert.chosen:.0%} of the units"
    right = "" if expert.right is None else f"; right for {expert.right:.0%} of what it added ({expert.judged})"
    return f"{shape_words(expert, period_s)}; {where}{chosen}{right}"


def _colours() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("evidence", [OPPOSE, "#ffffff", SUPPORT])


def _plain(text: str) -> str:
    """Names are text, not formulas: matplotlib would read what stands between two dollar signs."""
    return text.replace("$", r"\$")


def _hide_spines(axis: Any) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=7.5)
