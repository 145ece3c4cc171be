"""An explanation as an HTML page: the plot, and its numbers as tables that add up."""

import base64
import html
from pathlib import Path

from anchormoe.explain.explanation import Explanation
from anchormoe.explain.plot import class_name, headline, plot_explanation, waterfall


def write_explanation(path: Path, explanation: Explanation, *, title: str) -> None:
    """A plot (`.png`), or a page (`.html`) with the plot and its numbers."""
    if path.suffix == ".html":
        path.write_text(explanation_html(explanation, plot_explanation(explanation), title=title), encoding="utf-8")
    else:
        path.write_bytes(plot_explanation(explanation, title=title))


def explanation_html(explanation: Explanation, plot: bytes, *, title: str) -> str:
    """A single file without scripts; nothing is loaded from elsewhere."""
    return _PAGE.format(
        title=html.escape(title), headline=html.escape(headline(explanation)),
        picture=base64.b64encode(plot).decode(), tables=_sum_table(explanation) + _expert_table(explanation)
        + _class_table(explanation), residual=explanation.residual, model=html.escape(explanation.config.name),
        version=html.escape(explanation.config.version), digest=explanation.config.digest[:12],
    )  # fmt: skip


def _sum_table(explanation: Explanation) -> str:
    long_range = {f"{patch.start}–{patch.stop - 1}": f"{patch.far_share:.0%}" for patch in explanation.patches}
    rows = [[name, f"{value:+.4f}", long_range.get(name, "")] for name, value in waterfall(explanation)]
    total = [f"logit of {class_name(explanation.state)}", f"{explanation.logit:+.4f}", ""]
    return _table(["steps", "contribution", "long-range"], rows, total)


def _expert_table(explanation: Explanation) -> str:
    """All experts; with the context they, too, add up to the logit."""
    order = sorted(explanation.experts, key=lambda one: -abs(one.contribution))
    rows = [["context", f"{explanation.context:+.4f}", "", ""]]
    rows += [[one.name, f"{one.contribution:+.4f}", _figure(one.weight), _figure(one.reliability)] for one in order]
    total = [f"logit of {class_name(explanation.state)}", f"{explanation.logit:+.4f}", "", ""]
    return _table(["expert", "contribution", "weight", "reliability κ"], rows, total)


def _class_table(explanation: Explanation) -> str:
    pairs = zip(explanation.config.classes, explanation.probabilities, strict=True)
    rows = [[name, f"{value:.4f}"] for name, value in sorted(pairs, key=lambda pair: -pair[1])]
    return _table(["class", "probability"], rows, None)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _table(head: list[str], rows: list[list[str]], total: list[str] | None) -> str:
    names = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    return f"<table><tr>{names}</tr>{''.join(map(_row, rows))}{_row(total, ' class=sum') if total else ''}</table>"


def _row(cells: list[str], kind: str = "") -> str:
    return f"<tr{kind}>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;color:#1f2933;max-width:1300px;margin:2rem auto;padding:0 1rem}}
img{{max-width:100%}} table{{border-collapse:collapse;margin:1rem 2rem 1rem 0;display:inline-table;vertical-align:top}}
td,th{{padding:.15rem .8rem;border-bottom:1px solid #e4e7eb}} th{{text-align:left;font-weight:600;color:#52606d}}
td+td,th+th{{text-align:right;font-variant-numeric:tabular-nums}}
.sum td{{font-weight:600;border-top:2px solid #1f2933}}</style></head><body>
<h1>{title}</h1><p>{headline}</p><img alt="The window with its evidence" src="data:image/png;base64,{picture}">
<h2>The sum</h2>{tables}
<p>Long-range: the share of a contribution from kernels that span more than max(33, a quarter of the window) steps; its
position is less certain.</p>
<p>Residual of the sum {residual:.1e}. Model {model} {version}, digest {digest}. A contribution is what these steps add
to the score in this model, not how the score would change without them. Not a medical device and not a primary
alarm.</p>
</body></html>
"""
