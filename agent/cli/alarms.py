"""`anchormoe-agent alarms`: the worker that turns explained events into alarms."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from agent.alarms.worker.app import AlarmWorker


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: `anchormoe-agent alarms --config configs/alarms.yaml`")(alarms)


def alarms(
    config: Path = typer.Option(
        Path("plant.yaml"), "--config", "-c", help="The configuration, with a section `alarms`."
    ),
    http_port: int | None = typer.Option(
        None, "--http-port", help="Port of the HTTP API, instead of the configured one; 0 takes any free port."
    ),
) -> None:
    """Run an alarm worker: turns explained events into alarms by the rules of ISA-18.2.

    Reads the events topic with Faust. Several workers share the consoles. A worker may be killed at any time: after a
    restart the alarms are the same as without it. Ctrl-C or SIGTERM stops it. Not a medical device, not a primary
    alarm.
    """
    from agent.alarms.wiring import build_worker, prepare_topics
    from agent.logs import secrets_in, set_up_logs
    from agent.settings import load_settings

    plant = load_settings(config, os.environ)
    set_up_logs(plant.logging.format, plant.logging.level, secrets=secrets_in(plant))
    asyncio.run(prepare_topics(plant))
    worker = build_worker(plant, http_port=http_port)
    typer.echo(f"alarm worker of {plant.namespace}: {len(worker.catalogue.rules)} rules; stop with Ctrl-C", err=True)
    _run(worker)


def _run(worker: "AlarmWorker") -> None:
    import faust

    runner = faust.Worker(worker.app, loglevel="WARNING", redirect_stdouts=False, override_logging=False, quiet=True)
    runner.spinner = None  # it would write terminal codes into logs
    runner.execute_from_commandline()
