"""`anchormoe-agent users …`: who may use the HTTP servers, and as what."""

from pathlib import Path

import typer

commands = typer.Typer(no_args_is_help=True, help="Add and remove people who may use the HTTP servers; rotate tokens.")

NAME = typer.Argument(..., metavar="NAME", help="Name of the person; it is in the audit of everything they do.")
FILE = typer.Option(Path("users.yaml"), "--file", "-f", help="The users file, as in `http.users` of the configuration.")


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="users")


@commands.command(epilog="Example: `anchormoe-agent users add ada --role operate --file users.yaml`")
def add(
    name: str = NAME,
    role: str = typer.Option(..., "--role", help="view: reads; operate: also acknowledges and shelves; engineer: all."),
    file: Path = FILE,
) -> None:
    """Add a person and print their token, once; the file keeps only a hash of it.

    Running servers read the file again by themselves.
    """
    from agent.errors import SettingsError
    from agent.web.users import ROLES, add_user

    wanted = next((one for one in ROLES if one == role), None)
    if wanted is None:
        raise SettingsError(f"--role: {role!r} is not one of {', '.join(ROLES)}")
    typer.echo(add_user(file, name, wanted))
    _explain(name, file)


@commands.command(epilog="Example: `anchormoe-agent users rotate ada --file users.yaml`")
def rotate(name: str = NAME, file: Path = FILE) -> None:
    """Give a person a new token and print it, once. The old one stops working."""
    from agent.web.users import rotate_token

    typer.echo(rotate_token(file, name))
    _explain(name, file)


@commands.command(epilog="Example: `anchormoe-agent users remove ada --file users.yaml`")
def remove(name: str = NAME, file: Path = FILE) -> None:
    """Remove a person: their token stops working at once."""
    from agent.web.users import remove_user

    remove_user(file, name)
    typer.echo(f"{name}: removed from {file}", err=True)


@commands.command("list", epilog="Example: `anchormoe-agent users list --file users.yaml`")
def list_users(file: Path = FILE) -> None:
    """List names and roles."""
    from agent.web.users import read_users

    for user in read_users(file):
        typer.echo(f"{user.role:<9} {user.name}")


def _explain(name: str, file: Path) -> None:
    typer.echo(f"This is the token of {name}; it cannot be shown again. {file} has its hash only.", err=True)
