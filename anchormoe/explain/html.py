"""An explanation as an HTML page: the plot, and its numbers as tables that add up."""

import base64
import html
from pathlib import Path

import numpy as np

from anchormoe.explain.explanation import Explanation, Span, Sum
from anchormoe.explain.plot import OPPOSE, SUPPORT, expert_lines, plot_explanation
from anchormoe.explain.words import (
    FINDING_WORDS,
    add_up,
    beside,
    channels_of,
    class_name,
    compare_with_normal,
    example_words,
    has_name,
    headline,
    number,
    recorded,
    when,
    window_words,
    written_sum,
)

_CLASSES = 20
_CHANNELS = 20
_EXPERTS = 20


def write_explanation(path: Path, explanation: Explanation, *, title: str) -> None:
    """A plot (`.png`), or a page (`.html`) with the plot and its numbers."""
    if path.suffix == ".html":
        path.write_text(explanation_html(explanation, plot_explanation(explanation), title=title), encoding="utf-8")
    else:
        path.write_bytes(plot_explanation(explanation, title=title))


def explanation_html(explanation: Explanation, plot: bytes, *, title: str) -> str:
    """A single file without scripts; nothing is loaded from elsewhere."""
    state, rival = class_name(explanation.state), class_name(explanation.rival)
    cancellation = "–" if explanation.cancellation is None else f"{explanation.cancellation:.2f}"
    return _PAGE.format(
        title=html.escape(title), sentence=html.escape(explanation.sentence),
        headline=html.escape(headline(explanation)),
        window=html.escape(window_words(explanation)), picture=base64.b64encode(plot).decode(),
        score=_score_table(explanation), channels=_channel_table(explanation),
        rival=html.escape(rival), state=html.escape(state), margin=_margin_table(explanation, explanation.margin),
        experts=_expert_table(explanation), classes=_class_table(explanation), missing=_missing(explanation),
        cancellation=cancellation, residual=explanation.residual, model=html.escape(explanation.config.name),
        version=html.escape(explanation.config.version), digest=explanation.config.digest[:12],
    )  # fmt: skip


def _score_table(explanation: Explanation) -> str:
    """context + spans + everything else = score, each span with what a person compares."""
    (context, *values, remainder), score = written_sum(explanation.score)
    rows = [["context", "", "", context, "", ""]]
    rows += [_span_row(explanation, *each) for each in zip(explanation.score.spans, values, strict=True)]
    rows.append(["everything else", "", "", remainder, "", ""])
    total = [f"score of {class_name(explanation.state)}", "", "", score, "", ""]
    head = ["channel", "when", "what", "contribution", "expert", "most similar in TRAIN"]
    return _table(head, rows, total, numbers=(3,))


def _span_row(explanation: Explanation, span: Span, value: str) -> list[str]:
    example = "" if span.example is None else example_words(explanation, span.example)
    return [
        channels_of(explanation, span.term), when(explanation, span.start, span.stop),
        compare_with_normal(explanation, span), value, span.expert, example,
    ]  # fmt: skip


def _margin_table(explanation: Explanation, one: Sum) -> str:
    (context, *values, remainder), margin = written_sum(one)
    rows = [["context", "", context]]
    rows += [
        [channels_of(explanation, span.term), when(explanation, span.start, span.stop), value]
        for span, value in zip(one.spans, values, strict=True)
    ]
    rows.append(["everything else", "", remainder])
    return _table(["channel", "when", "difference"], rows, ["margin", "", margin], numbers=(2,))


def _channel_table(explanation: Explanation) -> str:
    """By channel over the whole window; with the context they, too, add up to the score."""
    totals = explanation.by_term
    order = [int(one) for one in np.argsort(-np.abs(totals), kind="stable") if totals[one] != 0]
    shown, rest = order[:_CHANNELS], order[_CHANNELS:]
    parts = [explanation.context, *(float(totals[at]) for at in shown), float(totals[rest].sum())]
    (context, *values, others), score = add_up(parts, explanation.logit)
    rows = [["context", context, "", ""]]
    for at, value in zip(shown, values, strict=True):
        term = explanation.terms[at]
        now, normal = ("", "") if len(term) > 1 else _now_and_normal(explanation, term[0])
        rows.append([channels_of(explanation, term), value, now, normal])
    if rest or float(others):
        rows.append([f"{len(rest)} others" if rest else "rounding", others, "", ""])
    total = [f"score of {class_name(explanation.state)}", score, "", ""]
    usual = "all of TRAIN" if explanation.normal.label is None else "normal"
    return _table(["channel", "contribution", "mean (range) in the window", usual], rows, total, numbers=(1,))


def _now_and_normal(explanation: Explanation, channel: int) -> tuple[str, str]:
    unit = explanation.config.units[channel]
    unit = f" {unit}" if has_name(unit) else ""
    values = explanation.window[channel][explanation.mask[channel]].astype(np.float64)
    normal = explanation.normal
    low, high = float(normal.low[channel]), float(normal.high[channel])
    told = [float(normal.mean[channel])]
    told += [float(values.mean()), float(values.min()), float(values.max())] if len(values) else []
    (mean, *now), between = beside(told, low, high)
    usual = f"{mean} ({between}){unit}"
    if not now:
        lost = any(one.channel == channel for one in explanation.findings)
        return "no value that can be right" if lost else "no data", usual
    return f"{now[0]} ({now[1]} to {now[2]}){unit}", usual


def _expert_table(explanation: Explanation) -> str:
    """All experts; with the context they, too, add up to the score. Each with its prototypes."""
    shown, rest = explanation.experts[:_EXPERTS], explanation.experts[_EXPERTS:]
    parts = [explanation.context, *(one.contribution for one in shown), sum(one.contribution for one in rest)]
    (context, *values, others), score = add_up(parts, explanation.logit)
    rows = [["context", context, "", "", "", ""]]
    pictures = [""]
    for one, value in zip(shown, values, strict=True):
        rows.append([
            one.title, value, _figure(one.weight), _figure(one.reliability),
            expert_lines(explanation, one.name), "" if one.title == one.name else one.name,
        ])  # fmt: skip
        pictures.append(_prototypes(explanation, one.name))
    if rest or float(others):
        rows.append([f"{len(rest)} others" if rest else "rounding", others, "", "", "", ""])
        pictures.append("")
    total = [f"score of {class_name(explanation.state)}", score, "", "", "", ""]
    head = ["expert", "contribution", "weight", "reliability", "what it knows, by TRAIN", "internal name"]
    body = "".join(
        _row(row, numbers=(1, 2, 3)) + (f"<tr><td colspan=6>{picture}</td></tr>" if picture else "")
        for row, picture in zip(rows, pictures, strict=True)
    )
    return _whole_table(head, body, _row(total, " class=sum", numbers=(1,)))


def _prototypes(explanation: Explanation, name: str) -> str:
    profiles = explanation.profiles
    if profiles is None or name not in profiles.numbers:
        return ""
    segments = profiles.segments
    figures = []
    for row in profiles.experts[profiles.numbers[name]].prototypes:
        place = int(segments.recording[row])
        where = f"case {int(segments.case[row])}" if place < 0 else profiles.recordings[place]
        known = int(segments.start_ns[row]) > np.iinfo(np.int64).min
        time = recorded(int(segments.start_ns[row]), explanation.config.period_ns) if known else ""
        label = class_name(explanation.config.classes[int(segments.label[row])])
        channel = explanation.config.channels[int(segments.channel[row])]
        contribution = float(segments.contribution[row])
        text = f"{channel}, {label}, {contribution:+.2f}, {where}{time}"
        figures.append(
            f"<figure>{_curve(segments.values[row], contribution)}<figcaption>{html.escape(text)}</figcaption></figure>"
        )
    return "".join(figures)


def _curve(values: "np.typing.NDArray[np.float32]", contribution: float) -> str:
    """A small line as SVG."""
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) / ((high - low) or 1.0)
    points = " ".join(
        f"{4 + 112 * at / max(len(values) - 1, 1):.1f},{42 - 36 * float(value):.1f}" for at, value in enumerate(scaled)
    )
    colour = SUPPORT if contribution > 0 else OPPOSE
    text = f"from {number(low)} to {number(high)}"
    return (
        f'<svg viewBox="0 0 120 46" width="120" height="46" role="img" aria-label="{text}"><title>{text}</title>'
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/></svg>'
    )


def _class_table(explanation: Explanation) -> str:
    order = np.argsort(-explanation.probabilities, kind="stable")
    rows = [
        [
            class_name(explanation.config.classes[at]),
            f"{explanation.probabilities[at]:.4f}",
            f"{explanation.logits[at]:+.4f}",
        ]
        for at in order[:_CLASSES].tolist()
    ]
    if len(order) > _CLASSES:
        rows.append([f"{len(order) - _CLASSES} others", f"{explanation.probabilities[order[_CLASSES:]].sum():.4f}", ""])
    return _table(["class", "probability", "score"], rows, None, numbers=(1, 2))


def _missing(explanation: Explanation) -> str:
    return _unused(explanation) + _missing_table(explanation)


def _unused(explanation: Explanation) -> str:
    """Samples that arrived and cannot be measurements, and why the model did not get them."""
    if not explanation.findings:
        return ""
    rows = [
        [
            explanation.config.channels[one.channel], FINDING_WORDS[one.kind],
            when(explanation, one.first, one.last + 1), f"{one.count}", number(one.value, 6),
        ]
        for one in explanation.findings
    ]  # fmt: skip
    head = ["channel", "not used", "when", "samples", "last value"]
    return _table(head, rows, None, numbers=(3, 4))


def _missing_table(explanation: Explanation) -> str:
    if not explanation.missing:
        return "<p>Nothing is missing: every channel has a value at every step.</p>"
    rows = [
        [explanation.config.channels[one], f"{share:.0%}"]
        for one, share in list(explanation.missing.items())[:_CHANNELS]
    ]
    return _table(["channel", "share of the steps without a value that was used"], rows, None, numbers=(1,))


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _table(head: list[str], rows: list[list[str]], total: list[str] | None, *, numbers: tuple[int, ...]) -> str:
    last = _row(total, " class=sum", numbers=numbers) if total else ""
    return _whole_table(head, "".join(_row(row, numbers=numbers) for row in rows), last)


def _whole_table(head: list[str], body: str, last: str) -> str:
    names = "".join(f"<th scope=col>{html.escape(name)}</th>" for name in head)
    return f"<div class=wide><table><thead><tr>{names}</tr></thead><tbody>{body}{last}</tbody></table></div>"


def _row(cells: list[str], kind: str = "", *, numbers: tuple[int, ...]) -> str:
    inner = "".join(
        f"<td{' class=n' if at in numbers else ''}>{html.escape(cell)}</td>" for at, cell in enumerate(cells)
    )
    return f"<tr{kind}>{inner}</tr>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>:root{{color-scheme:light dark;--ink:#1f2933;--grey:#52606d;--line:#e4e7eb;--ground:#fff}}
@media (prefers-color-scheme:dark){{:root{{--ink:#e4e7eb;--grey:#9fb0c0;--line:#3a4653;--ground:#161d24}}}}
body{{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground);max-width:1400px;margin:2rem auto;
padding:0 1rem}} h1{{overflow-wrap:anywhere}}
img{{max-width:100%;background:#fff}} svg{{background:#fff}}
.wide{{overflow-x:auto}} table{{border-collapse:collapse;margin:.5rem 0 1.5rem}}
h2{{margin:1.5rem 0 .2rem;font-size:1.15rem}}
td,th{{padding:.2rem .8rem .2rem 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}}
th{{text-align:left;font-weight:600;color:var(--grey)}} td.n{{font-variant-numeric:tabular-nums;white-space:nowrap}}
th{{overflow-wrap:normal}}
.sum td{{font-weight:600;border-top:2px solid var(--ink)}} .lead{{font-size:1.15rem}}
figure{{display:inline-block;margin:.2rem 1rem .2rem 0;max-width:14rem;vertical-align:top}}
figcaption{{font-size:.75rem;color:var(--grey);line-height:1.25;overflow-wrap:anywhere}}
@media (max-width:700px){{td{{min-width:6rem}} td.n{{min-width:0}} img{{max-width:none;width:900px}}}}
@media print{{:root{{--ink:#000;--grey:#333;--line:#bbb;--ground:#fff}} body{{font-size:10pt;margin:0;max-width:none}}
tr,figure,img{{break-inside:avoid}} h2{{break-after:avoid}} thead{{display:table-header-group}}}}</style></head><body>
<h1>{title}</h1><p class=lead>{sentence}</p><p>{headline}<br>{window}</p>
<div class=wide><img alt="Signals with what is normal, evidence by time and channel, the sums, experts"
 src="data:image/png;base64,{picture}"></div>
<h2>How the score of {state} adds up</h2>{score}
<h2>By channel</h2>{channels}
<h2>Why not {rival}</h2>{margin}
<h2>By expert</h2>{experts}
<h2>All classes</h2>{classes}
<h2>What was missing or not used</h2>{missing}
<p>Cancellation {cancellation} (1: nothing cancels). Residual of the sum {residual:.1e}. Model {model} {version}, digest
{digest}. Distance 1 is how far two TRAIN segments of an expert
and channel usually are from each other. A contribution is what these steps of these channels
add to the score in this model, not how the score would change without them. Not a medical device and not a primary
alarm.</p>
</body></html>
"""
