"""`anchormoe-agent trial`: hurt agents on a test cluster and see whether their events are those of a calm run."""

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

from agent.cli.errors import FAILED, WRONG_USAGE, fail
from agent.cli.interruption import run_interruptibly

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from agent.chaos.experiment import Experiment
    from agent.chaos.faults import Fault
    from agent.chaos.report import ExperimentResult

_SHOWN = 10


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: `anchormoe-agent trial --config plant.yaml --injuries 20 --seed 7`")(chaos)


def chaos(
    config: Path = typer.Option(Path("plant.yaml"), "--config", "-c", help="The plant: its models, Kafka and Redis."),
    injuries: int = typer.Option(10, "--injuries", "-n", min=0, help="How many, each kind in turn, shuffled."),
    only: list[str] = typer.Option([], "--only", metavar="KIND", help="These kinds of injury; repeatable."),
    whole_server: bool = typer.Option(
        False, "--whole-server", help="Also fill and slow down Redis, which hurts everybody who uses it."
    ),
    seed: int = typer.Option(0, "--seed", min=0, help="The same seed gives the same stream and the same injuries."),
    agents: int = typer.Option(2, "--agents", min=1, max=16, help="Agents that share the work."),
    partitions: int = typer.Option(4, "--partitions", min=1, max=64, help="Partitions of the trial's topic."),
    assets: int = typer.Option(6, "--assets", min=1, help="Made-up assets for each group."),
    rate: float = typer.Option(200, "--rate", min=1, help="Records per second."),
    member_timeout: str = typer.Option(
        "6s", "--member-timeout", metavar="TIME", help="After this Kafka replaces a silent agent; 6s is its least."
    ),
    logs: Path | None = typer.Option(None, "--logs", help="Directory for the agents' logs; default: a temporary one."),
    keep: bool = typer.Option(False, "--keep", help="Leave the trial's topics and keys for a closer look."),
    show_kinds: bool = typer.Option(False, "--kinds", help="List the kinds of injury and exit."),
    as_json: bool = typer.Option(False, "--json", help="The result as one JSON object."),
) -> None:
    """Hurt agents on a test cluster and compare their events with those of a replay.

    Writes a known stream into a topic of its own, runs agents on it and hurts them: kill -9 at any moment and at named
    points between publish, store and commit, owners that freeze and wake up, agents that come and go, windows that
    vanish from Redis, a topic that refuses. In the end the events without repeats must be byte-equal to those of
    `replay` over the same records: none missing, none extra. Exit code 1 when they are not.

    Topics, consumer group and keys carry a random name and are removed afterwards; the plant's own are never touched.
    Still, use a test cluster: made-up load is load.
    """
    from agent.chaos.faults import INJURIES

    if show_kinds:
        for injury in INJURIES.values():
            typer.echo(f"{injury.name:24} {injury.meaning} [{injury.reach}]")
        return
    chosen = _chosen(only, whole_server=whole_server, agents=agents)
    size = {"agents": agents, "partitions": partitions, "assets": assets, "rate": rate}
    given = _chaos(config, seed, size, member_timeout, logs, keep=keep)
    typer.echo(f"logs: {given.directory}", err=True)
    outcome = _run(given, _order(chosen, injuries, seed), quiet=as_json)
    typer.echo(json.dumps(outcome.as_json(), indent=2) if as_json else _told(outcome))
    if not outcome.same:
        raise typer.Exit(FAILED)


def _chosen(only: list[str], *, whole_server: bool, agents: int) -> "list[Fault]":
    """What needs the servers' processes is not offered: they are not ours. A lone agent cannot be replaced."""
    from agent.chaos.faults import INJURIES

    reach = {"own", "server"} if whole_server else {"own"}
    offered = {name: injury for name, injury in INJURIES.items() if injury.reach in reach}
    if agents == 1 and offered.pop("zombie") and "zombie" in only:
        fail("--only: zombie needs a second agent that replaces the first", code=WRONG_USAGE)
    for name in only:
        if name not in INJURIES:
            fail(f"--only: {name!r} is not one of {', '.join(INJURIES)}", code=WRONG_USAGE)
        if name not in offered:
            needed = "--whole-server" if INJURIES[name].reach == "server" else "the server's process, which is not ours"
            fail(f"--only: {name} needs {needed}", code=WRONG_USAGE)
    return [offered[name] for name in only] or list(offered.values())


def _order(chosen: "list[Fault]", count: int, seed: int) -> "list[Fault]":
    from agent.chaos.plan import in_turn

    return in_turn(chosen, count, Random(seed))


def _chaos(
    config: Path, seed: int, size: dict[str, float], member_timeout: str, logs: Path | None, *, keep: bool
) -> "Experiment":
    from agent.chaos.config import ExperimentNames, ExperimentPace
    from agent.chaos.experiment import Experiment, ExperimentSize
    from agent.settings import Duration

    try:
        pace = ExperimentPace(member_timeout_s=Duration.parse(member_timeout) / 1e9)
    except ValueError as error:
        fail(f"--member-timeout: {error}", code=WRONG_USAGE)
    names = ExperimentNames(f"chaos-{secrets.token_hex(4)}")
    directory = logs or Path(tempfile.mkdtemp(prefix=f"{names.namespace}-"))
    return Experiment(config, directory, names, seed, ExperimentSize(**size), pace, keep=keep)  # type: ignore[arg-type] # as typed above


def _run(chaos: "Experiment", injuries: "list[Fault]", *, quiet: bool) -> "ExperimentResult":
    from agent.chaos.errors import ChaosError
    from agent.chaos.experiment import run_experiment
    from agent.logs import set_up_logs

    set_up_logs("auto", "error")
    try:
        return run_interruptibly(_until_told(run_experiment(chaos, injuries, _reporter(quiet=quiet))))
    except ChaosError as error:
        fail(f"{error}\nlogs: {chaos.directory}")
    except KeyboardInterrupt:
        fail("interrupted; the trial's agents were ended, its topics and keys removed")


async def _until_told(work: "Coroutine[Any, Any, ExperimentResult]") -> "ExperimentResult":
    """SIGTERM is as good as Ctrl-C: the agents must not outlive the trial."""
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


def _told(outcome: "ExperimentResult") -> str:
    compared = outcome.comparison
    counts = f"{len(compared.missing)} missing, {len(compared.extra)} extra, {len(compared.different)} different"
    late = [wound for wound in outcome.wounds if not wound.in_time]
    slowest = max((wound.recovered_s for wound in outcome.wounds), default=0.0)
    lines = [
        f"{len(outcome.wounds)} injuries in {outcome.seconds:.0f} s, {outcome.records} records",
        f"events: {outcome.expected} expected, {compared.equal} equal, {counts}",
        f"repeats: {outcome.repeated} with the same bytes, {outcome.conflicts} with others; "
        f"history lost: {outcome.history_lost}",
        f"last states that are not those of the last events: {len(outcome.wrong_states)}",
        f"recovery: {slowest:.1f} s at most; {len(late)} beyond the goal",
    ]
    for word, names in (("missing", compared.missing), ("extra", compared.extra)):
        lines += [f"  {word}: {name.asset} {name.type} {name.id}" for name in names[:_SHOWN]]
    lines += [f"  different: {each.name.asset} {each.name.id}: {each.fields}" for each in compared.different[:_SHOWN]]
    return "\n".join([*lines, "the events are those of a calm run" if outcome.same else "THE EVENTS DIFFER"])
