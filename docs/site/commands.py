"""The command line as Markdown, asked of the commands themselves. Pure.

Only what click and the copy of it inside newer typer versions have in common is used; typer's own `utils docs` asks
the same questions.
"""

import re
from collections.abc import Iterator
from typing import Any

import typer

_EXTRA = re.compile(r"^(?P<help>.*?)(?:  \[(?P<extra>.+)\])?$", re.DOTALL)
_EXAMPLE = re.compile(r"^Example: `(?P<line>[^`]+)`$")


def command_pages(app: typer.Typer) -> dict[str, str]:
    """Markdown by name: one page for each top-level command, its subcommands included, and `index`."""
    root: Any = typer.main.get_command(app)
    context = root.make_context(root.name, [], resilient_parsing=True)
    children = list(_children(context))
    return {"index": _index(context, children)} | {one.info_name: _page(one) for one in children}


def command_paths(app: typer.Typer) -> list[str]:
    """Every command that can be called, as one types it: `anchormoe-agent bundle verify`."""
    root: Any = typer.main.get_command(app)
    return [one.command_path for one in _leaves(root.make_context(root.name, [], resilient_parsing=True))]


def _children(context: Any) -> Iterator[Any]:
    """A context for each visible subcommand, in the order of `--help`."""
    command = context.command
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        child = command.get_command(context, name)
        if not child.hidden:
            yield type(context)(child, info_name=name, parent=context)


def _leaves(context: Any) -> Iterator[Any]:
    children = list(_children(context))
    if not children:
        yield context
    for child in children:
        yield from _leaves(child)


def _index(context: Any, children: list[Any]) -> str:
    rows = [f"| [`{one.info_name}`]({one.info_name}.md) | {_summary(one)} |" for one in children]
    table = "\n".join(["| command | what it does |", "| --- | --- |", *rows])
    names = "\n".join(f"{one.info_name} <{one.info_name}>" for one in children)
    return "\n\n".join(
        [
            "# Command line",
            _help(context),
            "This reference is made from the commands; `--help` says the same on a terminal.",
            table,
            "## Options before the command",
            *_parameters(context, "option"),
            f"```{{toctree}}\n:hidden:\n\n{names}\n```",
        ]
    )


def _page(context: Any) -> str:
    parts = [f"# {context.command_path}", *_described(context)]
    for child in _leaves(context):
        if child is not context:
            parts += [f"## {child.command_path}", *_described(child)]
    return "\n\n".join(parts)


def _described(context: Any) -> list[str]:
    """Help, usage, arguments, options and the example of one command; a group has only its help."""
    parts = [_help(context)]
    if any(_children(context)):
        return parts
    usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
    parts.append(f"```text\n{usage}\n```")
    for kind, title in (("argument", "Arguments"), ("option", "Options")):
        found = _parameters(context, kind)
        parts += [f"**{title}**", *found] if found else []
    return [*parts, *_epilog(context)]


def _help(context: Any) -> str:
    return str(context.command.help or "").strip()


def _summary(context: Any) -> str:
    return _help(context).partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def _parameters(context: Any, kind: str) -> list[str]:
    records = [
        one.get_help_record(context) for one in context.command.get_params(context) if one.param_type_name == kind
    ]
    return [_parameter(*record) for record in records if record and record[0] != "--help"]


def _parameter(name: str, text: str) -> str:
    match = _EXTRA.match(text)
    assert match is not None
    facts = ", ".join(_fact(fact) for fact in (match["extra"] or "").split("; ") if fact)
    body = " ".join(part for part in (match["help"].strip(), facts and f"({facts})") if part)
    # No index: two hundred entries like `anchormoe-agent-run.--config` would drown every other search result.
    return f"```{{option}} {name}\n:no-index:\n\n{body}\n```"


def _fact(fact: str) -> str:
    """`default: 0` with the value as code; `required` as it is; a range as code."""
    word, colon, value = fact.partition(": ")
    if colon:
        return f"{word} `{value}`"
    return fact if fact.isalpha() else f"`{fact}`"


def _epilog(context: Any) -> list[str]:
    text = str(context.command.epilog or "").strip()
    example = _EXAMPLE.match(text)
    if example:
        return ["**Example**", f"```sh\n{example['line']}\n```"]
    return [text] if text else []
