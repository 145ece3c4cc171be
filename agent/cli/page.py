"""`anchormoe-agent page`: the operator page of a whole plant, from its topics."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.cli.inputs import parse_duration

if TYPE_CHECKING:
    from socket import socket

    from agent.page.topics_page import TopicsPage
    from agent.settings import Http

_CANCEL_AGAIN_S = 1.0
_CLOSING_S = 10.0
"""Below the 15 s that the chart grants; on a busy machine its readers need some seconds to let go of the broker."""


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: `anchormoe-agent page --config plant.yaml --port 8789`")(page)


def page(
    config: Path = typer.Option(Path("plant.yaml"), "--config", "-c", help="Configuration of the plant."),
    port: int = typer.Option(8789, "--port", min=0, max=65535, help="Port of the page; 0: any free one."),
    since: str = typer.Option("1d", "--since", metavar="TIME", help="How far back to read events: 10m, 1d …"),
) -> None:
    """Show the whole plant in the browser: states, evidence, alarms, health.

    Reads the topics of the plant's Kafka sink, joins no consumer group and commits nothing. Address, users and
    encryption are those of the section `http`. Not a medical device, not a primary alarm.
    """
    from agent.app import load_groups
    from agent.logs import secrets_in, set_up_logs
    from agent.models.compatibility import active_model
    from agent.models.loading import model_loader
    from agent.offline.rebuild import LogRebuild
    from agent.page.agent_page import PageHooks
    from agent.page.topics_page import TopicsPage
    from agent.settings import Http, load_plant
    from agent.terminal.story import headline
    from agent.web.server import address_of, listen

    plant = load_plant(config, os.environ)
    set_up_logs(plant.settings.logging.format, plant.settings.logging.level, secrets=secrets_in(plant.settings))
    since_s = parse_duration("--since", since).seconds
    http = plant.settings.http or Http()
    load = model_loader(plant.settings)
    with listen(http.host, port) as listener:
        models = {group.name: active_model(group, predictor) for group, predictor in load_groups(plant, load)}
        shown = TopicsPage(plant, models, PageHooks(headline, LogRebuild(plant, load)), since_s=since_s)
        typer.echo(f"operator page: {address_of(listener, tls=http.cert_file is not None)}/", err=True)
        asyncio.run(_serve(shown, listener, http))


async def _serve(shown: "TopicsPage", listener: "socket", http: "Http") -> None:
    from agent.runtime.lifecycle import ExitDeadline, stop_on_signals

    stop, deadline = asyncio.Event(), ExitDeadline(_CLOSING_S)
    with stop_on_signals(stop, deadline):
        work = asyncio.ensure_future(shown.run(listener, http))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        await _cancel(work)
        try:
            await work
        except asyncio.CancelledError:
            return
        finally:
            deadline.cancel()


async def _cancel(work: "asyncio.Future[None]") -> None:
    """Until it has ended: a library may swallow a cancellation, and a task group tells its tasks only once."""
    work.cancel()
    while not (await asyncio.wait({work}, timeout=_CANCEL_AGAIN_S))[0]:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
