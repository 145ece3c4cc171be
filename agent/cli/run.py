"""`anchormoe-agent run`: the live agent."""

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.cli.errors import fail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.health.counters import Counters
    from agent.runtime.instruments import Observer
    from agent.runtime.lifecycle import ExitDeadline
    from agent.settings import LoadedPlant, Plant

_CLOSING_S = 10.0
"""Beyond `checkpoint.stop_deadline`, to close connections; then the process ends, whatever hangs."""


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: `anchormoe-agent run --config configs/demo.yaml --for 30s`")(run)


def run(
    config: Path = typer.Option(
        Path("plant.yaml"), "--config", "-c", help="Configuration of the plant; `init` writes one to start from."
    ),
    duration: str | None = typer.Option(None, "--for", metavar="TIME", help="Stop after this time: 30s, 10m …"),
) -> None:
    """Classify the state of every asset, live, with the evidence for it.

    Reads the plant's records, keeps a sliding window per asset, classifies each window when it is due and publishes the
    state with the spans, channels and experts behind it. Ctrl-C or SIGTERM finishes the batch, publishes, stores the
    windows and commits; a second one stops at once. Not a medical device, not a primary alarm.
    """
    from agent.logs import secrets_in, set_up_logs
    from agent.runtime.lifecycle import ExitDeadline
    from agent.runtime.memory import limit_heap
    from agent.settings import load_plant

    limit_heap()
    seconds = _seconds(duration)
    plant = load_plant(config, os.environ)
    _arm_failpoint(os.environ)
    set_up_logs(plant.settings.logging.format, plant.settings.logging.level, secrets=secrets_in(plant.settings))
    for warning in plant.warnings:
        typer.echo(f"warning: {config}: {warning}", err=True)
    deadline = ExitDeadline(plant.settings.checkpoint.stop_deadline.seconds + _CLOSING_S)
    try:
        counters = asyncio.run(_run(plant, seconds, deadline))
    except asyncio.CancelledError:
        fail("stopped by a second signal; records since the last checkpoint will be read again")
    finally:
        deadline.cancel()
    typer.echo(str(counters), err=True)


def _seconds(text: str | None) -> float | None:
    from agent.settings import Duration

    if text is None:
        return None
    try:
        return Duration.parse(text).seconds
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from error


def _arm_failpoint(environ: "Mapping[str, str]") -> None:
    """Only for the chaos tool: where this process kills itself."""
    from agent.errors import SettingsError
    from connectors import failpoints

    if name := environ.get(failpoints.VARIABLE):
        try:
            failpoints.arm(name)
        except ValueError as error:
            raise SettingsError(str(error)) from error
        typer.echo(f"warning: {failpoints.VARIABLE}={name}: this process will kill itself", err=True)


async def _run(plant: "LoadedPlant", seconds: float | None, deadline: "ExitDeadline") -> "Counters":
    from agent.app import build
    from agent.health.counters import Counters
    from agent.models.loading import model_loader
    from agent.offline.rebuild import LogRebuild
    from agent.page.agent_page import PageHooks
    from agent.runtime.instruments import Instruments
    from agent.runtime.lifecycle import stop_on_signals
    from agent.terminal.story import headline

    counters, stop = Counters(), asyncio.Event()
    view = _view(plant.settings, counters)
    instruments = Instruments(counters=counters, observer=view)
    rebuild = LogRebuild(plant, model_loader(plant.settings))
    hooks = PageHooks(headline, rebuild, announce=lambda url: _announce(view, url))
    try:
        with build(plant, instruments=instruments, page=hooks) as application, stop_on_signals(stop, deadline):
            if seconds is not None:
                asyncio.get_running_loop().call_later(seconds, stop.set)
            await application.run(stop)
    finally:
        deadline.start()  # asyncio.run still waits for the threads of the loop
    return counters


def _announce(view: "Observer", url: str) -> None:
    """On the live board, which keeps it, or as the first line."""
    from agent.terminal.views import LiveView

    if isinstance(view, LiveView):
        view.page = url
    else:
        typer.echo(f"operator page: {url}/", err=True)


def _view(settings: "Plant", counters: "Counters") -> "Observer":
    """What the console sink asks for; without one, nothing is shown."""
    from rich.console import Console

    from agent.runtime.instruments import NullObserver
    from agent.settings import ConsoleSinkSettings
    from agent.terminal.views import LineView, LiveView

    styles = [sink.style for sink in settings.sinks if isinstance(sink, ConsoleSinkSettings)]
    if not styles:
        return NullObserver()
    live = styles[0] == "live" or (styles[0] == "auto" and sys.stdout.isatty())
    return LiveView(Console(), counters) if live else LineView(Console())
