"""A command is found in the one module that is imported for it."""

import pytest
import typer

from agent.cli.main import MODULES, command_line, modules_for


def names(app: typer.Typer) -> set[str]:
    command = typer.main.get_command(app)
    return set(command.commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(names(command_line())))
def test_every_command_is_in_the_module_that_is_imported_for_it(name: str) -> None:
    modules = modules_for([name, "--help"])
    assert len(modules) == 1
    assert name in names(command_line(tuple(modules)))


@pytest.mark.parametrize("arguments", [[], ["--help"], ["nonsense"], ["config"], ["errors"]])
def test_help_and_errors_know_every_command(arguments: list[str]) -> None:
    assert modules_for(arguments) == MODULES


def test_the_version_needs_no_command() -> None:
    assert modules_for(["--version"]) == ()
