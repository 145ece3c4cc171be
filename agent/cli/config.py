"""Commands about the configuration: `validate` it, `init` a new one, print a `schema`."""

import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agent.cli.errors import FAILED, TRY_AGAIN, WRONG_USAGE, fail

if TYPE_CHECKING:
    from agent.settings import Examination, LoadedPlant, Problem


def _settings_schema() -> str:
    from agent.settings import settings_schema  # here, because building the tree would slow down every other command

    return _indented(settings_schema())


def _event_schema() -> str:
    from agent.contracts.json_schema import event_schema

    return _indented(event_schema())


def _state_schema() -> str:
    from agent.contracts.json_schema import state_schema

    return _indented(state_schema())


def _alarm_schema() -> str:
    from agent.contracts.json_schema import alarm_schema

    return _indented(alarm_schema())


def _transition_schema() -> str:
    from agent.contracts.json_schema import transition_schema

    return _indented(transition_schema())


def _audit_schema() -> str:
    from agent.contracts.json_schema import audit_schema

    return _indented(audit_schema())


def _asyncapi() -> str:
    from agent.contracts.asyncapi import asyncapi

    return _indented(asyncapi())


def _page_api() -> str:
    from agent.page.openapi import openapi_document

    return _indented(openapi_document())


def _indented(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


PRINTERS: Mapping[str, Callable[[], str]] = {
    "settings": _settings_schema,
    "event": _event_schema,
    "state": _state_schema,
    "alarm": _alarm_schema,
    "alarm-transition": _transition_schema,
    "alarm-audit": _audit_schema,
    "asyncapi": _asyncapi,
    "page": _page_api,
}
"""What `schema NAME` prints."""


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: `anchormoe-agent validate plant.yaml --online`")(validate)
    app.command(epilog="Example: `anchormoe-agent init plant.yaml`")(init)
    app.command(epilog="Example: `anchormoe-agent schema settings > settings.schema.json`")(schema)


def validate(
    config: Path = typer.Argument(..., metavar="PLANT.YAML", help="The configuration to check."),
    as_json: bool = typer.Option(False, "--json", help="Print the problems as one JSON object."),
    without_secrets: bool = typer.Option(
        False, "--without-secrets", help="Do not read secrets, certificates and input files: a build server has none."
    ),
    online: bool = typer.Option(
        False,
        "--online",
        help="Also check, read-only, that Kafka and Redis are set up for the delivery guarantees.",
    ),
) -> None:
    """Print every problem of a configuration at once: where it is, what is wrong and what would be right.

    Exit code 0: valid, perhaps with warnings; 2: not valid; 75: only files are missing, which may come later;
    1 with --online: a service cannot be reached.
    """
    from agent.settings import examine

    if online and without_secrets:
        fail("--online needs the secrets; remove --without-secrets", code=WRONG_USAGE)
    examination = examine(config, os.environ, with_secrets=not without_secrets)
    code = TRY_AGAIN if examination.may_pass else WRONG_USAGE
    if online and examination.loaded:
        examination, code = _with_services(examination, examination.loaded)
    if as_json:
        typer.echo(json.dumps(_as_json(examination, online=online), indent=2, ensure_ascii=False))
        raise typer.Exit(0 if examination.loaded else code)
    _print(examination, code)


def _with_services(examination: "Examination", plant: "LoadedPlant") -> "tuple[Examination, int]":
    """With the problems of the services, and the exit code for errors among them."""
    from agent.settings.online import add_findings, examine_services

    findings = asyncio.run(examine_services(plant))
    return add_findings(examination, findings), FAILED if findings.only_unreachable else WRONG_USAGE


def _print(examination: "Examination", code: int) -> None:
    for line in examination.infos:
        typer.echo(f"info: {line}", err=True)
    for line in examination.warnings:
        typer.echo(f"warning: {line}", err=True)
    if examination.loaded is None:
        fail("\n".join(examination.errors), code=code)
    typer.echo(_summary(examination))


def _as_json(examination: "Examination", *, online: bool) -> dict[str, Any]:
    severities = {"errors": "error", "warnings": "warning"} | ({"infos": "info"} if online else {})
    lists = {
        name: [_problem(one) for one in examination.problems if one.severity == severity]
        for name, severity in severities.items()
    }
    return {"file": str(examination.path), "valid": examination.loaded is not None} | lists


def _problem(problem: "Problem") -> dict[str, Any]:
    fields = {"field": problem.field, "wrong": problem.wrong, "right": problem.right}
    return fields | {"line": problem.line or None, "column": problem.column or None}


def _summary(examination: "Examination") -> str:
    groups = examination.loaded.groups if examination.loaded else ()
    names = ", ".join(f"{group.name} ({len(group.channels)} channels)" for group in groups)
    return f"{examination.path}: valid; groups: {names}"


def init(
    path: Path = typer.Argument(Path("plant.yaml"), help="File to write."),
    force: bool = typer.Option(False, "--force", help="Overwrite existing files."),
) -> None:
    """Write a commented plant.yaml to start from, and next to it the schema with which editors complete it."""
    schema_path = path.with_name(f"{path.stem}.schema.json")
    _require_writable(path, schema_path, force=force)
    template = (files("agent.settings") / "template.yaml").read_text(encoding="utf-8")
    plant = f"# yaml-language-server: $schema={schema_path.name}\n{template}"
    _write({schema_path: _settings_schema() + "\n", path: plant})
    typer.echo(f"wrote {path}; edit it, then run: anchormoe-agent validate {path}")


def _require_writable(*paths: Path, force: bool) -> None:
    if not paths[0].parent.is_dir():
        fail(f"{paths[0].parent}: there is no such directory", code=WRONG_USAGE)
    for path in paths:
        if path.is_dir():
            fail(f"{path}: is a directory", code=WRONG_USAGE)
        if path.exists() and not force:
            fail(f"{path}: exists already; --force overwrites it", code=WRONG_USAGE)


def _write(texts: Mapping[Path, str]) -> None:
    """All files or none: they are written to a temporary directory first. All paths share a directory."""
    directory = next(iter(texts)).parent
    try:
        with tempfile.TemporaryDirectory(dir=directory, prefix=".anchormoe-") as drafts:
            for path, text in texts.items():
                (Path(drafts) / path.name).write_text(text, encoding="utf-8")
            for path in texts:
                (Path(drafts) / path.name).replace(path)
    except OSError as error:
        fail(f"{directory}: cannot write to it: {error.strerror}", code=WRONG_USAGE)


def schema(name: str = typer.Argument(..., help=f"One of: {', '.join(PRINTERS)}.")) -> None:
    """Print a schema: of the settings, of published messages (event, state, alarm …), or of all topics (asyncapi)."""
    if name not in PRINTERS:
        fail(f"there is no schema {name!r}; use one of {', '.join(PRINTERS)}", code=WRONG_USAGE)
    typer.echo(PRINTERS[name]())
