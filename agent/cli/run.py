"""`anchormoe-agent run`: the live agent."""

import asyncio
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.cli.errors import fail

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from contextlib import AbstractContextManager
    from socket import socket
    from typing import Any

    from agent.health.counters import Counters
    from agent.runtime.pipeline import Pipeline
    from agent.settings import LoadedPlant, Plant
    from agent.terminal.views import View


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: `anchormoe-agent run --config configs/demo.yaml --for 30s`")(run)


def run(
    config: Path = typer.Option(
        Path("plant.yaml"), "--config", "-c", help="The plant; `init` writes one to start from."
    ),
    duration: str | None = typer.Option(None, "--for", metavar="TIME", help="End by itself after 30s, 10m …"),
) -> None:
    """Label the state of every asset, live, with the evidence.

    Reads the plant's records, keeps a sliding window per asset, judges each window when it is due and publishes its
    state with the spans, channels and experts behind it. Ctrl-C or SIGTERM finishes the batch, publishes, stores the
    windows and commits; a second one ends at once. Not a medical device, not a primary alarm.
    """
    from agent.logs import secrets_in, set_up_logs
    from agent.settings import load_plant

    seconds = _seconds(duration)
    plant = load_plant(config, os.environ)
    _arm_failpoint(os.environ)
    set_up_logs(plant.settings.logging.format, plant.settings.logging.level, secrets=secrets_in(plant.settings))
    for warning in plant.warnings:
        typer.echo(f"warning: {config}: {warning}", err=True)
    try:
        tally = asyncio.run(_watch(plant, seconds))
    except asyncio.CancelledError:
        fail("ended at once by a second signal; what came after the last checkpoint will be read again")
    typer.echo(str(tally), err=True)


def _seconds(text: str | None) -> float | None:
    from agent.settings import Duration

    if text is None:
        return None
    try:
        return Duration.parse(text) / 1e9
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from error


def _arm_failpoint(environ: "Mapping[str, str]") -> None:
    """Only for trials: where this process is to kill itself."""
    from agent.errors import SettingsError
    from connectors import failpoints

    if wanted := environ.get(failpoints.VARIABLE):
        try:
            failpoints.arm(wanted)
        except ValueError as error:
            raise SettingsError(str(error)) from error
        typer.echo(f"warning: {failpoints.VARIABLE}={wanted}: this process will kill itself", err=True)


async def _watch(plant: "LoadedPlant", seconds: float | None) -> "Counters":
    """The address is taken first, then the models are loaded, then anything is connected."""
    from agent.app import build
    from agent.health.counters import Counters
    from agent.runtime.alongside import run_with_helpers
    from agent.runtime.gc_tuning import gc_tuning
    from agent.runtime.signals import stop_on_signals

    tally, stop = Counters(), asyncio.Event()
    view = _view(plant.settings, tally)
    with _listener(plant.settings) as listener:
        pipeline = build(plant, observer=view, tally=tally)
        pipeline.vitals.models_loaded = True
        with stop_on_signals(stop), gc_tuning():
            if seconds is not None:
                asyncio.get_running_loop().call_later(seconds, stop.set)
            view.start()
            try:
                await run_with_helpers(pipeline.run(stop), _helpers(plant.settings, pipeline, listener))
            finally:
                view.stop()
    return tally


def _listener(settings: "Plant") -> "AbstractContextManager[socket | None]":
    from agent.health.http import listen

    return nullcontext() if settings.http is None else listen(settings.http.host, settings.http.port)


def _helpers(settings: "Plant", pipeline: "Pipeline", listener: "socket | None") -> "list[Coroutine[Any, Any, None]]":
    """What runs beside the pipeline: the heartbeat, the watchdog, the activations of models, the health pages."""
    from agent.health.http import HealthPages, serve
    from agent.health.loop_delay import measure_loop_delay
    from agent.health.metrics import registry_of
    from agent.health.watchdog import Watchdog

    limit_s = settings.limits.no_progress / 1e9
    helpers = [measure_loop_delay(pipeline.vitals), Watchdog(pipeline, limit_s=limit_s).watch()]
    if pipeline.models is not None:
        helpers.append(pipeline.models.follow(pipeline.announce))
    if settings.http is None or listener is None:
        return helpers
    token = settings.http.token.get_secret_value() if settings.http.token else None
    registry = registry_of(pipeline.tally, pipeline.vitals)
    pages = HealthPages(pipeline.vitals, registry, no_progress_s=limit_s, token=token)
    return [*helpers, serve(pages.app(), listener)]


def _view(settings: "Plant", tally: "Counters") -> "View":
    """What the console sink asks for; without one, nothing is shown."""
    from rich.console import Console

    from agent.settings import ConsoleSinkSettings
    from agent.terminal.views import LineView, LiveView, NullView

    styles = [sink.style for sink in settings.sinks if isinstance(sink, ConsoleSinkSettings)]
    console = Console()
    if not styles:
        return NullView()
    live = styles[0] == "live" or (styles[0] == "auto" and sys.stdout.isatty())
    return LiveView(console, tally) if live else LineView(console)
