"""Expert profiles as one page of pictures: prototypes, classes, and the cosines of posterior anchors."""

import io
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from anchormoe.profiles.names import Vocabulary, shorten_name
from anchormoe.profiles.normal import NormalRange
from anchormoe.profiles.profile import PROTOTYPES, Anchors, ExpertProfile, ExpertProfiles
from anchormoe.profiles.segments import UNKNOWN_RECORDING

BLUE, ORANGE, GREY, INK = "#2b6cb0", "#c05621", "#8a8f98", "#1f2933"
MAX_ROWS = 12
_CLASSES = 6
_MATRICES = 4


def plot_experts(profiles: ExpertProfiles, vocabulary: Vocabulary, normal: NormalRange | None = None) -> bytes | None:
    """A PNG: one row per expert, the strongest first, then the matrices; None without experts."""
    from matplotlib.figure import Figure

    shown = sorted(profiles.experts, key=lambda one: -one.share)[:MAX_ROWS]
    if not shown:
        return None
    anchors = profiles.anchors[:_MATRICES]
    heights = [1.25 * len(shown) + 0.4, *([3.4] if anchors else [])]
    figure: Any = Figure(figsize=(14, sum(heights)), layout="constrained", dpi=90)
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    _draw_rows(parts[0], shown, profiles, vocabulary, normal)
    if anchors:
        _draw_anchors(parts[1], anchors, profiles)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": "anchormoe"})
    return buffer.getvalue()


def _draw_rows(
    part: Any, shown: Sequence[ExpertProfile], profiles: ExpertProfiles, vocabulary: Vocabulary,
    normal: NormalRange | None,
) -> None:  # fmt: skip
    axes = part.subplots(len(shown), 2 + PROTOTYPES, width_ratios=[1.7, 1.3, *[1] * PROTOTYPES], squeeze=False)
    left_out = len(profiles.experts) - len(shown)
    more = f"; {left_out} with less evidence are not drawn" if left_out else ""
    part.suptitle(
        "experts: mean contribution to a class in windows called so, and TRAIN segments they spoke loudest on "
        f"(blue: for, orange: against the answer; green: normal){more}",
        x=0.01, ha="left", fontsize=10, color=INK,
    )  # fmt: skip
    for row, expert in zip(axes, shown, strict=True):
        title = "\n".join(textwrap.wrap(shorten_name(expert.title, 90), 32)[:4])
        row[0].text(0, 0.5, plain(f"{title}\n{expert.share:.0%} of the evidence"), va="center", fontsize=8, color=INK)
        row[0].set_axis_off()
        _draw_support(row[1], expert, vocabulary)
        for axis in row[2:]:
            axis.set_axis_off()
        for axis, segment in zip(row[2:], expert.prototypes, strict=False):
            _draw_prototype(axis, segment, profiles, vocabulary, normal)


def _draw_support(axis: Any, expert: ExpertProfile, vocabulary: Vocabulary) -> None:
    known = [(value, vocabulary.classes[at]) for at, value in enumerate(expert.support) if value is not None]
    rows = sorted(known, key=lambda pair: -abs(pair[0]))[:_CLASSES]
    values = [value for value, _ in rows]
    axis.barh(range(len(rows)), values, color=[BLUE if value > 0 else ORANGE for value in values], height=0.7)
    axis.set_yticks(range(len(rows)), [plain(shorten_name(name, 18)) for _, name in rows], fontsize=6.5)
    axis.axvline(0, color=GREY, linewidth=0.8)
    axis.invert_yaxis()
    axis.tick_params(labelsize=6.5)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_prototype(
    axis: Any, row: int, profiles: ExpertProfiles, vocabulary: Vocabulary, normal: NormalRange | None
) -> None:
    segments = profiles.segments
    if normal is not None:
        channel_number = int(segments.channel[row])
        axis.axhspan(normal.low[channel_number], normal.high[channel_number], color="#dfe7dd", linewidth=0)
    axis.plot(segments.values[row], color=BLUE if segments.contribution[row] > 0 else ORANGE, linewidth=1.3)
    recording = int(segments.recording[row])
    where = f"case {segments.case[row]}" if recording == UNKNOWN_RECORDING else profiles.recordings[recording]
    channel, label = vocabulary.channels[segments.channel[row]], vocabulary.classes[segments.label[row]]
    lines = [shorten_name(channel, 24), shorten_name(label, 24), shorten_name(where, 24)]
    axis.set_title(plain("\n".join(lines)), fontsize=6.5, color=GREY, pad=1)


def _draw_anchors(part: Any, anchors: Sequence[Anchors], profiles: ExpertProfiles) -> None:
    axes = part.subplots(1, _MATRICES, squeeze=False)[0]
    part.suptitle("cosine of posterior anchors: 1 alike, 0 unrelated", x=0.01, ha="left", fontsize=10, color=INK)
    for axis in axes[len(anchors) :]:
        axis.set_axis_off()
    for axis, one in zip(axes, anchors, strict=False):
        values = np.array(one.cosine)
        axis.imshow(values, cmap="RdBu", vmin=-1, vmax=1)
        names = [plain(shorten_name(profiles.titles.get(name, name), 26)) for name in one.experts]
        few = len(names) <= 12
        axis.set_yticks(range(len(names)) if few else [], names if few else [], fontsize=6)
        axis.set_xticks([])
        for row, column in np.argwhere(np.ones_like(values)) if few else []:
            colour = "white" if abs(values[row, column]) > 0.6 else "black"
            axis.text(column, row, f"{values[row, column]:.2f}", ha="center", va="center", fontsize=6, color=colour)


def plain(text: str) -> str:
    """Names are text, not formulas: matplotlib would read what stands between two dollar signs."""
    return text.replace("$", r"\$")
