"""The two ways to watch: a live table on a terminal, plain lines everywhere else."""

from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agent.assessment import Glance, Sighting
from agent.events import STATE
from agent.identity import iso_time
from agent.judgement import UNKNOWN
from agent.tally import Tally
from agent.terminal.story import clock, headline, patch_lines, picture, sum_line

_SPARK_WIDTH = 64
_REFRESH_PER_S = 4
_USUAL = frozenset({"normal", "healthy", "ok", "good", "0"})


class View(Protocol):
    """An observer with a beginning and an end."""

    def start(self) -> None: ...
    def judged(self, glance: Glance) -> None: ...
    def published(self, sighting: Sighting) -> None: ...
    def stop(self) -> None: ...


class Lines:
    """One line per event and the reasons below it: for logs, pipes and small terminals."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def start(self) -> None:
        """Nothing to prepare."""

    def judged(self, glance: Glance) -> None:
        """Only what is published makes a line."""

    def published(self, sighting: Sighting) -> None:
        data = sighting.event.data
        self._say(f"{iso_time(sighting.event.time_ns)}  {headline(data)}")
        if data["type"] == STATE and data["evidence"]:
            for line in [*patch_lines(data["evidence"])[:3], sum_line(data)]:
                self._say(f"    {line}")

    def stop(self) -> None:
        """Nothing to put away."""

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class Dark:
    """Nothing is shown: the events go elsewhere."""

    def start(self) -> None: ...
    def judged(self, glance: Glance) -> None: ...
    def published(self, sighting: Sighting) -> None: ...
    def stop(self) -> None: ...


class Board:
    """A table of all assets, and the last change with its window, its evidence and its sum."""

    def __init__(self, console: Console, tally: Tally) -> None:
        self._tally = tally
        self._glances: dict[str, Glance] = {}
        self._last_change: Sighting | None = None
        self._recent: list[str] = []
        self._live = Live(console=console, refresh_per_second=_REFRESH_PER_S, get_renderable=self._render)

    def start(self) -> None:
        self._live.start()

    def judged(self, glance: Glance) -> None:
        self._glances[glance.asset] = glance

    def published(self, sighting: Sighting) -> None:
        data = sighting.event.data
        self._recent = [f"{clock(iso_time(sighting.event.time_ns))}  {headline(data)}", *self._recent][:5]
        if data["type"] == STATE and data["evidence"] and data["state"] != data["previous_state"]:
            self._last_change = sighting

    def stop(self) -> None:
        self._live.stop()

    def _render(self) -> Group:
        recent = Panel("\n".join(self._recent) or "waiting …", title="events")
        footer = Text(f"{self._tally}   Ctrl-C ends", style="dim")
        return Group(self._table(), self._explained(), recent, footer)

    def _table(self) -> Table:
        table = Table(expand=True, title="Not a medical device, not a primary alarm", title_style="dim")
        for name, justify in (
            ("asset", "left"),
            ("state", "left"),
            ("since", "left"),
            ("p", "right"),
            ("note", "left"),
        ):
            table.add_column(name, justify=justify)  # type: ignore[arg-type]
        for asset in sorted(self._glances):
            glance = self._glances[asset]
            probability = "" if glance.probability is None else f"{glance.probability:.2f}"
            state = Text(glance.standing.state, style=self._style(glance.standing.state))
            table.add_row(asset, state, clock(iso_time(glance.since_ns)), probability, _note(glance))
        return table

    @staticmethod
    def _style(state: str) -> str:
        """Green for the state that most plants call normal: a colour is a hint, the word is the message."""
        return "yellow" if state == UNKNOWN else "green" if state.lower() in _USUAL else "bold red"

    def _explained(self) -> Panel:
        if self._last_change is None:
            return Panel("no change explained yet", title="last change")
        data = self._last_change.event.data
        rows = picture(self._last_change, _SPARK_WIDTH)
        width = max((len(name) for name, _ in rows), default=0)
        pictures = [f"{name:>{width}}  {line}" for name, line in rows]
        text = Text("\n".join([*pictures, "", *patch_lines(data["evidence"])[:4], sum_line(data)]))
        return Panel(text, title=f"last change  {clock(data['window']['end'])}  {headline(data)}")


def _note(glance: Glance) -> str:
    gone = f"missing: {', '.join(glance.standing.missing)}" if glance.standing.missing else ""
    return ", ".join(part for part in ((glance.reason or "").replace("_", " "), gone) if part)
