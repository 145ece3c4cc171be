"""The console script `anchormoe-agent`: registers the command groups."""

import logging
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module

import typer

from agent.cli.errors import exit_on_error
from agent.cli.file_rights import keep_others_out

MODULES = (
    "run",
    "page",
    "config",
    "train",
    "bundle",
    "explain",
    "data",
    "evaluate",
    "benchmark",
    "plan",
    "tail",
    "replay",
    "chaos",
    "simulate",
    "windows",
    "skip",
    "registry",
    "models",
    "dead_letters",
    "alarms",
    "alarm",
    "users",
    "support_bundle",
)
"""Of this package, in the order of the help. A module is called like its command, but for those of OTHERWISE."""
OTHERWISE = {"validate": "config", "init": "config", "schema": "config"}


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # reading all metadata takes longer than most commands

        typer.echo(f"anchormoe-agent {version('anchormoe-agent')}")
        raise typer.Exit


def root(
    show_version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
    ),
) -> None:
    """Options before the command."""


@cache
def command_line(modules: Sequence[str] = MODULES) -> typer.Typer:
    app = typer.Typer(
        name="anchormoe-agent",
        help="Label the state of every asset from its sensor streams, with evidence that adds up exactly to the score."
        "\n\nNot a medical device and not a primary alarm.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
    )
    app.callback()(root)
    for name in modules:
        import_module(f"agent.cli.{name}").register(app)
    return app


def modules_for(arguments: Sequence[str]) -> Sequence[str]:
    """The one that has the command: importing the others would take a third of a second of every command.

    All of them where no command is named, or one that does not exist: the help and the error list every command.
    """
    named = arguments[0] if arguments else ""
    if named == "--version":
        return ()
    module = OTHERWISE.get(named, named.replace("-", "_"))
    is_command = module in MODULES and named not in OTHERWISE.values()
    return (module,) if is_command else MODULES


def __getattr__(name: str) -> typer.Typer:
    """`app`, with every command: for those who describe or test the command line."""
    if name == "app":
        return command_line()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Entry point; the only place where errors become exit codes."""
    # aiokafka logs every failed connection; commands without logs of their own print it once, as their error.
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    with keep_others_out(), exit_on_error():
        command_line(modules_for(sys.argv[1:]))()


if __name__ == "__main__":
    main()
