"""`anchormoe-agent chaos`: inject faults on a test cluster and check that the events are those of a replay."""

import asyncio
import json
import secrets
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import typer

from agent.cli.errors import FAILED, WRONG_USAGE, fail, run_interruptibly
from agent.cli.inputs import parse_duration

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from agent.chaos.experiment import Experiment
    from agent.chaos.fault import Fault
    from agent.chaos.report import ExperimentResult

_SHOWN = 10


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: `anchormoe-agent chaos --config plant.yaml --faults 20 --seed 7`")(chaos)


def chaos(
    config: Path = typer.Option(Path("plant.yaml"), "--config", "-c", help="The plant: its models, Kafka and Redis."),
    count: int = typer.Option(10, "--faults", "-n", min=0, help="Number of faults; every kind in turn, shuffled."),
    only: list[str] = typer.Option([], "--only", metavar="FAULT", help="Inject only this fault; repeatable."),
    whole_server: bool = typer.Option(
        False, "--whole-server", help="Also fill and slow down Redis, which affects everyone who uses it."
    ),
    seed: int = typer.Option(0, "--seed", min=0, help="The same seed gives the same records and the same faults."),
    agents: int = typer.Option(2, "--agents", min=1, max=16, help="Number of agents that share the partitions."),
    partitions: int = typer.Option(4, "--partitions", min=1, max=64, help="Partitions of the experiment's topic."),
    assets: int = typer.Option(6, "--assets", min=1, help="Simulated assets for each group."),
    rate: float = typer.Option(200, "--rate", min=1, help="Records per second."),
    member_timeout: str = typer.Option(
        "6s", "--member-timeout", metavar="TIME", help="Kafka's session.timeout.ms; a broker's usual minimum is 6s."
    ),
    logs: Path | None = typer.Option(None, "--logs", help="Directory for the agents' logs; default: a temporary one."),
    keep: bool = typer.Option(False, "--keep", help="Keep the experiment's topics and keys afterwards."),
    list_faults: bool = typer.Option(False, "--list", help="List the faults and exit."),
    as_json: bool = typer.Option(False, "--json", help="Print the result as one JSON object."),
) -> None:
    """Inject faults into agents on a test cluster and compare their events with those of a replay.

    Writes simulated records to a topic of its own, runs agents on it and injects faults: kill -9 at any moment and at
    named points between publishing, storing and committing; owners that are paused and resumed; agents that join and
    leave; windows that are deleted from Redis; topics that reject messages; records that no decoder likes; aborted
    transactions; a topic that is deleted and made again, overtaken by retention, or whose offsets are moved. In the end
    the events without repeats must be byte-equal to those of `replay` over the same records; after a break of the log,
    to those over what it holds then. Exit code 1 when they are not.

    Topics, consumer group and keys have a random name and are removed afterwards; the plant's own are never touched.
    Use a test cluster nevertheless: the load is real.
    """
    from agent.chaos.experiment import plan_faults
    from agent.chaos.faults import FAULTS

    if list_faults:
        for fault in FAULTS.values():
            typer.echo(f"{fault.name:24} {fault.description} [{fault.scope}]")
        return
    kinds = _select_faults(only, whole_server=whole_server, agents=agents)
    size = {"agents": agents, "partitions": partitions, "assets": assets, "rate": rate}
    experiment = _experiment(config, seed, size, member_timeout, logs, keep=keep)
    typer.echo(f"logs: {experiment.directory}", err=True)
    result = _run(experiment, plan_faults(kinds, count, Random(seed)), quiet=as_json)
    typer.echo(json.dumps(result.as_json(), indent=2) if as_json else _as_text(result))
    if not result.same:
        raise typer.Exit(FAILED)


def _select_faults(only: list[str], *, whole_server: bool, agents: int) -> "list[Fault]":
    """Without those that need a server's process, which is not ours. A single agent cannot be replaced."""
    from agent.chaos.faults import FAULTS

    scopes = {"experiment", "server"} if whole_server else {"experiment"}
    offered = {name: fault for name, fault in FAULTS.items() if fault.scope in scopes}
    if agents == 1 and offered.pop("zombie") and "zombie" in only:
        fail("--only: zombie needs a second agent that replaces the first; use --agents 2", code=WRONG_USAGE)
    for name in only:
        if name not in FAULTS:
            fail(f"--only: {name!r} is not one of {', '.join(FAULTS)}", code=WRONG_USAGE)
        if name not in offered:
            needed = (
                "--whole-server" if FAULTS[name].scope == "server" else "the process of a server, which is not ours"
            )
            fail(f"--only: {name} needs {needed}", code=WRONG_USAGE)
    return [offered[name] for name in only] or list(offered.values())


def _experiment(
    config: Path, seed: int, size: dict[str, float], member_timeout: str, logs: Path | None, *, keep: bool
) -> "Experiment":
    from agent.chaos.config import ExperimentNames, ExperimentPace
    from agent.chaos.experiment import Experiment, ExperimentSize

    pace = ExperimentPace(member_timeout_s=parse_duration("--member-timeout", member_timeout).seconds)
    names = ExperimentNames(f"chaos-{secrets.token_hex(4)}")
    directory = logs or Path(tempfile.mkdtemp(prefix=f"{names.namespace}-"))
    return Experiment(config, directory, names, seed, ExperimentSize(**size), pace, keep=keep)  # type: ignore[arg-type] # as typed above


def _run(experiment: "Experiment", faults: "list[Fault]", *, quiet: bool) -> "ExperimentResult":
    from agent.chaos.agents import ChaosError
    from agent.chaos.experiment import run_experiment
    from agent.logs import set_up_logs

    set_up_logs("auto", "error")
    try:
        return run_interruptibly(_until_sigterm(run_experiment(experiment, faults, _reporter(quiet=quiet))))
    except ChaosError as error:
        fail(f"{error}\nlogs: {experiment.directory}")
    except KeyboardInterrupt:
        fail("interrupted; the experiment's agents were stopped, its topics and keys removed")


async def _until_sigterm(work: "Coroutine[Any, Any, ExperimentResult]") -> "ExperimentResult":
    """SIGTERM acts like Ctrl-C: the agents must not outlive the experiment."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _reporter(*, quiet: bool) -> Callable[[str], None]:
    if quiet:
        return lambda line: None
    return lambda line: typer.echo(line, err=True)


def _as_text(result: "ExperimentResult") -> str:
    compared = result.comparison
    counts = f"{len(compared.missing)} missing, {len(compared.extra)} extra, {len(compared.different)} different"
    late = [outcome for outcome in result.outcomes if not outcome.in_time]
    slowest = max((outcome.recovered_s for outcome in result.outcomes), default=0.0)
    lines = [
        f"{len(result.outcomes)} faults in {result.seconds:.0f} s, {result.records} records",
        f"events: {result.expected} expected, {compared.equal} equal, {counts}",
        f"repeats: {result.repeated} with the same bytes, {result.conflicts} with other bytes; "
        f"history lost: {result.history_lost}",
        f"assets whose latest state differs from their last event: {len(result.wrong_states)}",
        f"breaks of the log that no agent reported: {len(result.unreported)}",
        f"recovery: at most {slowest:.1f} s; {len(late)} slower than the goal",
    ]
    for word, names in (("missing", compared.missing), ("extra", compared.extra)):
        lines += [f"  {word}: {name.asset} {name.type} {name.id}" for name in names[:_SHOWN]]
    lines += [f"  different: {each.name.asset} {each.name.id}: {each.fields}" for each in compared.different[:_SHOWN]]
    return "\n".join([*lines, "events match the reference replay" if result.same else "EVENTS DIFFER FROM THE REPLAY"])
