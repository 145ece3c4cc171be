"""`anchormoe-agent registry`: the schemas of a log, for a replay where no registry can be asked."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.cli.errors import WRONG_USAGE, fail, run_interruptibly
from agent.cli.inputs import parse_log_range

if TYPE_CHECKING:
    from agent.offline.schema_export import Exported

commands = typer.Typer(no_args_is_help=True, help="Work with the schema registry of the input records.")


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="registry")


@commands.command(epilog="Example: `anchormoe-agent registry export --config plant.yaml --to schemas`")
def export(
    config: Path = typer.Option(Path("plant.yaml"), "--config", "-c", help="Configuration of the plant."),
    to: Path = typer.Option(..., "--to", help="Directory for the schemas; created when it does not exist."),
    inputs: list[str] = typer.Option(
        [], "--input", metavar="kafka|kafka:TOPIC|FILE", help="The log; repeatable. Default: the plant's topics."
    ),
    first: str | None = typer.Option(None, "--from", metavar="TIME|OFFSET", help="Begin of the range."),
    last: str | None = typer.Option(None, "--until", metavar="TIME|OFFSET", help="End of the range."),
) -> None:
    """Write every schema that the records of a log name into a directory, one file each.

    With `records.registry: {directory: …}` a replay then needs no registry. Ids that the registry does not have are
    named, and exit code 1 tells of them.
    """
    from agent.offline.inputs import bounded_source, parse_place
    from agent.offline.schema_export import export_schemas
    from agent.settings import load_plant

    plant = load_plant(config, os.environ)
    if plant.settings.records.registry is None:
        fail(f"records.format is {plant.settings.records.format}: such records name no schema", code=WRONG_USAGE)
    places = [parse_place("--input", text) for text in inputs]
    source, _ = bounded_source(plant.settings, places, parse_log_range(first, last))
    to.mkdir(parents=True, exist_ok=True)
    done: Exported = run_interruptibly(export_schemas(plant.settings.records, source, to))
    typer.echo(f"{len(done.written)} schemas of {done.records:,} records written to {to}")
    if done.unknown:
        fail("\n".join(done.unknown))
