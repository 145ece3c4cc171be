"""`anchormoe-agent alarms`: the worker that turns explained events into alarms."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from agent.alarms.worker.app import AlarmWorker
    from agent.settings import Plant


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: `anchormoe-agent alarms --config configs/alarms.yaml`")(alarms)


def alarms(
    config: Path = typer.Option(Path("plant.yaml"), "--config", "-c", help="The plant, with a section `alarms`."),
    http_port: int | None = typer.Option(None, "--http-port", help="Instead of the configured one; 0: any free one."),
) -> None:
    """Turn explained events into few, explained alarms, by the rules of ISA-18.2.

    A Faust worker over the events topic; several share the load. It can be killed at any time: after a restart the
    alarms are what they would have been. Ctrl-C or SIGTERM ends it. Not a medical device, not a primary alarm.
    """
    from agent.logs import secrets_in, set_up_logs
    from agent.settings import load_settings

    plant = load_settings(config, os.environ)
    set_up_logs(plant.logging.format, plant.logging.level, secrets=secrets_in(plant))
    shell = _shell(plant, http_port)
    typer.echo(f"alarms of {plant.namespace}: {len(shell.catalogue.rules)} rules; Ctrl-C ends", err=True)
    _run(shell)


def _shell(plant: "Plant", http_port: int | None) -> "AlarmWorker":
    from agent.alarms.wiring import build_worker, prepare

    asyncio.run(prepare(plant))
    return build_worker(plant, http_port=http_port)


def _run(shell: "AlarmWorker") -> None:
    import faust

    worker = faust.Worker(shell.app, loglevel="WARNING", redirect_stdouts=False, override_logging=False, quiet=True)
    worker.spinner = None  # it would write terminal codes into logs
    worker.execute_from_commandline()
