"""The report of a period: text for the terminal, and one HTML page with plots. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from agent.alarms.core.transitions import Transition
from agent.alarms.kpis import FLOOD_ABOVE, Figures, Period, figures
from agent.alarms.text import printable
from agent.event_types import NOTICE
from connectors.timestamps import format_iso

_WIDTH, _HEIGHT, _MARGIN = 900, 160, 36
_MOST_BARS = 450
_PRIORITIES = ("low", "medium", "high")
_TARGET_MIX = (0.80, 0.15, 0.05)


@dataclass(frozen=True, slots=True)
class ReportLine:
    """One figure: its value, the target of the standard and whether it is met (None: there is no target)."""

    name: str
    value: str
    target: str = ""
    met: bool | None = None


def report_lines(one: Figures) -> Iterator[ReportLine]:
    busiest = max(one.per_ten_minutes)
    yield ReportLine("alarms announced", str(one.announced))
    yield ReportLine("alarms per 10 min", f"{one.rate:.2f}", "about 1, at most 2", one.rate <= 2)
    yield ReportLine("busiest 10 min", str(busiest), f"at most {FLOOD_ABOVE}", busiest <= FLOOD_ABOVE)
    yield ReportLine("time in flood", f"{one.flood_share:.2%}", "under 1 %", one.flood_share < 0.01)
    yield ReportLine("chattering alarms", str(len(one.chattering)), "none", not one.chattering)
    yield ReportLine("fleeting alarms (under 1 min)", str(one.fleeting), "none", one.fleeting == 0)
    yield ReportLine("stale on the worst day (over 24 h)", str(one.most_stale), "under 5", one.most_stale < 5)
    shares = [one.priority_share(name) for name in _PRIORITIES]
    mix = " / ".join("-" if share is None else f"{share:.0%}" for share in shares)
    yield ReportLine("low / medium / high", mix, "about 80 / 15 / 5 %")
    yield ReportLine("time to acknowledge, median", _seconds(one.median_acknowledge_s))
    yield ReportLine("time to acknowledge, nine in ten", _seconds(one.p90_acknowledge_s))


def report_text(found: Sequence[Figures]) -> Iterator[str]:
    if not found:
        yield "no transitions in this period"
    for one in found:
        yield f"console {printable(one.console)}"
        for line in report_lines(one):
            mark = {True: "ok", False: "MISSED", None: ""}[line.met]
            yield f"  {line.name:<36} {line.value:>16}   {line.target:<20} {mark}".rstrip()
        if one.bad_actors:
            yield "  most frequent:"
            yield from (f"    {count:>5}  {printable(alarm)}" for alarm, count in one.bad_actors)


def report_html(transitions: Iterable[Transition], period: Period) -> str:
    """One file without scripts; it loads nothing from elsewhere."""
    sections = "".join(_section(one, period) for one in figures(transitions, period))
    shown = f"{_minute(period.begin_ns)} to {_minute(period.end_ns)}, UTC"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Alarm report</title>'
        f"<style>{_STYLE}</style></head><body><h1>Alarm report</h1><p>{shown}</p>"
        f"{sections or '<p>No transitions in this period.</p>'}<p class='note'>{escape(NOTICE)} "
        "Targets by ISA-18.2 / IEC 62682.</p></body></html>\n"
    )


def _section(one: Figures, period: Period) -> str:
    rows = "".join(
        f"<tr class='{_CLASS[line.met]}'><td>{escape(line.name)}</td><td>{escape(line.value)}</td>"
        f"<td>{escape(line.target)}</td><td>{_MET[line.met]}</td></tr>"
        for line in report_lines(one)
    )
    actors = "".join(f"<li>{escape(printable(alarm))}: {count}</li>" for alarm, count in one.bad_actors)
    return (
        f"<h2>Console {escape(printable(one.console))}</h2>{_bars(one, period)}"
        f"<table><tr><th>figure</th><th>value</th><th>target</th><th>met</th></tr>{rows}</table>"
        f"{_mix(one)}<h3>Most frequent</h3><ol>{actors or '<li>none</li>'}</ol>"
    )


def _bars(one: Figures, period: Period) -> str:
    """Alarms per ten minutes; in a long period each bar is the maximum of several."""
    per_bar = -(-len(one.per_ten_minutes) // _MOST_BARS)
    heights = [max(one.per_ten_minutes[at : at + per_bar]) for at in range(0, len(one.per_ten_minutes), per_bar)]
    top = max(*heights, FLOOD_ABOVE + 2) if heights else FLOOD_ABOVE + 2
    width = (_WIDTH - 2 * _MARGIN) / len(heights)
    bars = "".join(
        f"<rect x='{_MARGIN + at * width:.2f}' y='{_y(count, top):.2f}' width='{max(width - 0.5, 0.5):.2f}' "
        f"height='{_HEIGHT - _MARGIN - _y(count, top):.2f}' class='{'flood' if count > FLOOD_ABOVE else 'bar'}'/>"
        for at, count in enumerate(heights)
    )
    limits = "".join(_limit(count, top) for count in (0, 2, FLOOD_ABOVE))
    note = f"Alarms per 10 minutes{_per_bar(per_bar)}. More than 2 are too many; more than {FLOOD_ABOVE} are a flood."
    return f"{_svg(bars + limits + _time_axis(period))}<p class='note'>{note}</p>"


def _time_axis(period: Period) -> str:
    """Begin, middle and end of the period."""
    middle_ns = (period.begin_ns + period.end_ns) // 2
    labels = (
        (period.begin_ns, _MARGIN, "start"),
        (middle_ns, _WIDTH / 2, "middle"),
        (period.end_ns, _WIDTH - _MARGIN, "end"),
    )
    return "".join(
        f"<text x='{x}' y='{_HEIGHT - _MARGIN + 16}' text-anchor='{anchor}'>{_minute(at)}</text>"
        for at, x, anchor in labels
    )


def _mix(one: Figures) -> str:
    """The measured shares above, the target below."""
    shares = [one.priority_share(name) or 0.0 for name in _PRIORITIES]
    drawn = _stripe(shares, y=4, height=18) + _stripe(_TARGET_MIX, y=26, height=6)
    note = ", ".join(f"{name} {share:.0%}" for name, share in zip(_PRIORITIES, shares, strict=True))
    picture = f"<svg viewBox='0 0 {_WIDTH} 36' role='img' aria-label='priorities'>{drawn}</svg>"
    return f"{picture}<p class='note'>Priorities: {note}. The thin stripe is the target, 80 / 15 / 5 %.</p>"


def _stripe(shares: Sequence[float], *, y: int, height: int) -> str:
    drawn, x = "", float(_MARGIN)
    for name, share in zip(_PRIORITIES, shares, strict=True):
        wide = share * (_WIDTH - 2 * _MARGIN)
        drawn += f"<rect x='{x:.1f}' y='{y}' width='{wide:.1f}' height='{height}' class='{name}'/>"
        x += wide
    return drawn


def _minute(at_ns: int) -> str:
    return format_iso(at_ns)[:16].replace("T", " ")


def _svg(content: str) -> str:
    return f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' aria-label='alarms per ten minutes'>{content}</svg>"


def _limit(count: int, top: int) -> str:
    y = _y(count, top)
    line = f"<line x1='{_MARGIN}' x2='{_WIDTH - _MARGIN}' y1='{y:.1f}' y2='{y:.1f}' class='limit'/>"
    return f"{line}<text x='4' y='{y + 4:.1f}'>{count}</text>"


def _y(count: int, top: int) -> float:
    return _HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * count / top


def _per_bar(count: int) -> str:
    return "" if count == 1 else f"; each bar is the maximum of {count}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


_CLASS = {True: "met", False: "missed", None: ""}
_MET = {True: "yes", False: "no", None: ""}
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2430}"
    "table{border-collapse:collapse;margin:1rem 0}"
    "td:last-child{font-weight:600}td,th{padding:.25rem .9rem;text-align:left;border-bottom:1px solid #d8dee6}"
    ".met td:nth-child(2){color:#14713d}.missed td:nth-child(2){color:#b3261e;font-weight:600}"
    ".note{color:#5b6675;font-size:.9em}svg{width:100%;height:auto}text{font-size:11px;fill:#5b6675}"
    ".bar{fill:#3b6ea8}.flood{fill:#b3261e}.limit{stroke:#9aa5b3;stroke-dasharray:4 3}"
    ".low{fill:#7aa6cf}.medium{fill:#e0a030}.high{fill:#b3261e}"
)
