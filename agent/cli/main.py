"""The console script `anchormoe-agent`: registers the command groups."""

import logging
from importlib.metadata import version

import typer

from agent.cli import (
    alarm,
    alarms,
    benchmark,
    bundle,
    chaos,
    config,
    data,
    dead_letters,
    evaluate,
    explain,
    models,
    replay,
    run,
    simulate,
    skip,
    tail,
    train,
    users,
    windows,
)
from agent.cli.errors import exit_on_error
from agent.cli.file_rights import keep_others_out

app = typer.Typer(
    name="anchormoe-agent",
    help="Label the state of every asset from its sensor streams, with evidence that adds up exactly to the score.\n\n"
    "Not a medical device and not a primary alarm.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"anchormoe-agent {version('anchormoe-agent')}")
        raise typer.Exit


@app.callback()
def root(
    show_version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
    ),
) -> None:
    """Options before the command."""


for group in (
    run,
    config,
    train,
    bundle,
    explain,
    data,
    evaluate,
    benchmark,
    tail,
    replay,
    chaos,
    simulate,
    windows,
    skip,
    models,
    dead_letters,
    alarms,
    alarm,
    users,
):
    group.register(app)


def main() -> None:
    """Entry point; the only place where errors become exit codes."""
    # aiokafka logs every failed connection; commands without logs of their own print it once, as their error.
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    with keep_others_out(), exit_on_error():
        app()


if __name__ == "__main__":
    main()
