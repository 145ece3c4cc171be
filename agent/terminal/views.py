"""Console views of the running agent: a live board on a terminal, plain lines everywhere else."""

from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agent.event_types import STATE, is_normal_state
from agent.events.outgoing import OutgoingEvent, WindowResult
from agent.health.counters import Counters
from agent.models.classifier import UNKNOWN
from agent.page.state import strongest_evidence
from agent.terminal.story import clock, headline, picture, span_lines, sum_line, why_lines
from connectors.printable import printable
from connectors.timestamps import format_iso

_SPARK_WIDTH = 64
_FRAME = 6
"""Columns of a panel that are not text: borders, padding, the space after a label."""
_LEAST_ROWS = 4
_EVENTS_LINES = 7
_OTHER_LINES = 19
"""Lines of the board around the rows of its table, without the last events."""
_REFRESH_PER_S = 4


class LineView:
    """One line per event and the evidence below it: for logs, pipes and small terminals."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def start(self) -> None:
        """Nothing to start."""

    def classified(self, result: WindowResult) -> None:
        """Only published events get a line."""

    def published(self, outgoing: OutgoingEvent) -> None:
        data = outgoing.event.data
        self._say(f"{format_iso(outgoing.event.time_ns)}  {headline(data)}")
        if data["type"] == STATE and data["evidence"]:
            for line in [*why_lines(data), *span_lines(data["evidence"])[:3], sum_line(data)]:
                self._say(f"    {line}")

    def warned(self, message: str | None) -> None:
        """The log has it."""

    def stop(self) -> None:
        """Nothing to stop."""

    def _say(self, line: str) -> None:
        self._console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


class LiveView:
    """A table of all assets, and the last change of state with its window, its evidence and its sum."""

    def __init__(self, console: Console, counters: Counters) -> None:
        self._console, self._counters = console, counters
        self._results: dict[str, WindowResult] = {}
        self._why: dict[str, tuple[str, str]] = {}
        self._last_change: OutgoingEvent | None = None
        self._recent: list[str] = []
        self._warning: str | None = None
        self.page: str | None = None
        """where the operator page is, for the footer"""
        self._live = Live(console=console, refresh_per_second=_REFRESH_PER_S, get_renderable=self.render)

    def start(self) -> None:
        self._live.start()

    def classified(self, result: WindowResult) -> None:
        self._results[result.asset] = result

    def published(self, outgoing: OutgoingEvent) -> None:
        data = outgoing.event.data
        self._recent = [f"{clock(format_iso(outgoing.event.time_ns))}  {headline(data)}", *self._recent][:5]
        if data["type"] == STATE:
            self._why[data["asset"]] = data["state"], strongest_evidence(data)
        if data["type"] == STATE and data["evidence"] and data["state"] != data["previous_state"]:
            self._last_change = outgoing

    def warned(self, message: str | None) -> None:
        self._warning = None if message is None else f"warning: {message}"

    def stop(self) -> None:
        self._live.stop()

    def render(self) -> Group:
        recent = [Panel(_one_line_each(self._recent or ["no events yet"]), title="events")] if self._is_high else []
        footer = _text(f"{self._counters}   Ctrl-C stops", style="dim")
        where = [_text(f"operator page: {self.page}/", style="bold")] if self.page else []
        warning = [_text(self._warning, style="yellow")] if self._warning else []
        return Group(*warning, self._table(), self._explained(), *recent, *where, footer)

    @property
    def _is_high(self) -> bool:
        """Whether the terminal has space for the last events."""
        return self._console.height >= _OTHER_LINES + _LEAST_ROWS + _EVENTS_LINES

    def _table(self) -> Table:
        shown = self._shown()
        hidden = len(self._results) - len(shown)
        caption = f"and {hidden} more, normal or changed longer ago" if hidden else None
        table = Table(
            title="Not a medical device, not a primary alarm", title_style="dim", caption=caption, expand=True
        )
        table.add_column("asset")
        table.add_column("state", no_wrap=True)
        table.add_column("since", no_wrap=True)
        table.add_column("sure", justify="right", no_wrap=True)
        table.add_column("why", ratio=1)
        for result in shown:
            since, sure = clock(format_iso(result.since_ns)), _sure(result)
            table.add_row(_text(result.asset), _state(result.state.state), since, sure, _text(self._reason(result)))
        return table

    def _reason(self, result: WindowResult) -> str:
        """As on the page: the strongest evidence of the state, why it is unknown, what is odd about sensors."""
        state, evidence = self._why.get(result.asset, ("", ""))
        return ", ".join(part for part in (evidence if state == result.state.state else "", _note(result)) if part)

    def _shown(self) -> list[WindowResult]:
        """As many as the terminal has space for, worst first as on the page; of the normal ones the latest changes."""
        below = _OTHER_LINES + (_EVENTS_LINES if self._is_high else 0)
        below += 1 if self.page else 0
        below += -(-len(self._warning) // self._console.width) if self._warning else 0
        rows = max(self._console.height - below, _LEAST_ROWS)
        return sorted(self._results.values(), key=_badness)[:rows]

    def _explained(self) -> Panel:
        if self._last_change is None:
            return Panel("no change of state yet", title="last change")
        data = self._last_change.event.data
        names = [*self._last_change.channels, "evidence"]
        label = max(map(len, names))
        rows = picture(self._last_change, min(_SPARK_WIDTH, max(self._console.width - label - _FRAME, 1)))
        pictures = [f"{name:>{label}}  {line}" for name, line in rows]
        text = _one_line_each([*pictures, "", *why_lines(data), *span_lines(data["evidence"])[:3], sum_line(data)])
        return Panel(text, title=_text(f"last change  {clock(data['window']['end'])}  {headline(data)}"))


def _one_line_each(lines: Sequence[str]) -> Text:
    """A long line is cut: wrapped, it would look like two."""
    return Text("\n".join(map(printable, lines)), no_wrap=True, overflow="ellipsis")


def _text(words: str, style: str = "") -> Text:
    """As it is, without markup: names come from records and models."""
    return Text(printable(words), style=style)


def _kind(state: str) -> str:
    """As on the page: what is normal goes back, what is not stands out; colour is left to alarms."""
    return UNKNOWN if state == UNKNOWN else "normal" if is_normal_state(state) else "abnormal"


def _sure(result: WindowResult) -> str:
    """As on the page: never 100 %, and of an unknown state nobody is sure."""
    if result.probability is None or _kind(result.state.state) == UNKNOWN:
        return "–"
    return "> 99 %" if result.probability > _QUITE_SURE else f"{100 * result.probability:.0f} %"


_QUITE_SURE = 0.99
_ORDER = {"abnormal": 0, UNKNOWN: 1, "normal": 2}
_STYLES = {"abnormal": "bold reverse", UNKNOWN: "italic", "normal": "dim"}


def _state(state: str) -> Text:
    """Framed, hatched or grey, as on the page: no meaning depends on a colour."""
    kind = _kind(state)
    return _text(f"░{state}░" if kind == UNKNOWN else f" {state} ", style=_STYLES[kind])


def _badness(result: WindowResult) -> tuple[int, float, int, str]:
    """The order of the page: by kind, the surest in tenths, the earliest; among normal ones the latest change."""
    kind = _kind(result.state.state)
    tenths = -round((result.probability or 0) * 10) if kind == "abnormal" else 0
    return _ORDER[kind], tenths, -result.since_ns if kind == "normal" else result.since_ns, result.asset


def _note(result: WindowResult) -> str:
    gone = f"missing: {', '.join(result.state.missing)}" if result.state.missing else ""
    sensors = ", ".join(f"{one.channel} {one.finding}" for one in result.state.sensors)
    return ", ".join(part for part in ((result.reason or "").replace("_", " "), gone, sensors) if part)
